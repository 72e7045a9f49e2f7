"""What an ELF object asks of others: its undefined symbols. Nothing else of the format is read.

Layout: System V ABI, chapter 4, "Object files", 64-bit little-endian.
"""

from __future__ import annotations

import struct

_MAGIC = b"\x7fELF\x02\x01"
_SYMBOL_TABLE = 2
_SECTION_HEADERS = struct.Struct("<Q")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


def undefined_symbols(content: bytes) -> list[str] | None:
    """Names that an object refers to and does not define, sorted; `None` for another format."""
    if not content.startswith(_MAGIC):
        return None
    (table,) = _SECTION_HEADERS.unpack_from(content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    sections: list[tuple[int, ...]] = [
        _SECTION.unpack_from(content, table + size * i) for i in range(count)
    ]
    names: set[str] = set()
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        offset, length, strings = section[4], section[5], sections[section[6]][4]
        for place in range(offset, offset + length, _SYMBOL.size):
            name, _, _, where, _, _ = _SYMBOL.unpack_from(content, place)
            if where == 0 and name:
                end = content.index(b"\0", strings + name)
                names.add(content[strings + name : end].decode())
    return sorted(names)
