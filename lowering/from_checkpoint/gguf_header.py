"""What stands before the tensors of a GGUF file: metadata, and where each tensor is.

Read by the package `gguf`, but for lists, of which it makes two arrays of each word and number:
10 s and 650 MB for the words of Llama 3; and for types of forks. What a file says of its own sizes
is believed as far as the file reaches. Not here: what metadata mean (`gguf_file`), blocks
(`gguf_trits`).
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from gguf import GGUFReader, GGUFValueType, ReaderField

from ...ir.errors import SourceError
from .gguf_trits import block_size

_MOST_FIELDS, _LONGEST_NAME = 1 << 14, 256
_MOST_AXES, _MOST_ELEMENTS = 4, 1 << 40


class Place(NamedTuple):
    """Where a tensor is.

    Attributes:
        shape: the outermost axis first.
        kind: number of its type.
        start: of its first byte in the file.
        size: in bytes.
    """

    shape: tuple[int, ...]
    kind: int
    start: int
    size: int


class Header(GGUFReader):
    """What a file says of itself.

    Attributes:
        places: of the tensors, by name.

    Raises:
        SourceError: the file cannot be read, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.places: dict[str, Place] = {}
        try:
            super().__init__(path)
        except OSError as error:
            raise SourceError(f"'{path}': {error.strerror}") from None
        except (ValueError, KeyError, OverflowError, struct.error) as error:
            said = str(error.args[0])
            how = said if said.isprintable() else "it holds a name that is none"
            raise SourceError(f"'{path}' is no GGUF file, or is damaged: {how}") from None

    def value(self, name: str) -> Any:
        """A number, a text, a list of texts, or an array of numbers; `None` if it is not there."""
        field = self.fields.get(name)
        if field is None:
            return None
        part: Any = field.parts[-1]
        if GGUFValueType.STRING in field.types:
            return str(part.tobytes(), "utf-8", "replace")
        return part if GGUFValueType.ARRAY in field.types else part.tolist()[0]

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> Any:
        if offset + int(count) * np.dtype(dtype).itemsize > len(self.data):
            raise ValueError("it ends too soon")
        return super()._get(offset, dtype, count, override_order)

    def _build_fields(self, offs: int, count: int) -> int:
        if self.byte_order != "I":
            raise ValueError("its numbers have their first byte last")
        if count > _MOST_FIELDS:
            raise ValueError(f"{count} entries of metadata")
        return super()._build_fields(offs, count)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, Any, list[int], Any]:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        content: Any = memoryview(cast("Any", self.data))
        kind, count = struct.unpack_from("<IQ", content, orig_offs)
        place, values = orig_offs + 12, list[str]()
        if kind == GGUFValueType.STRING:
            for _ in range(count):
                (size,) = struct.unpack_from("<Q", content, place)
                start, place = place + 8, place + 8 + size
                values.append(str(content[start:place], "utf-8", "replace"))
            self._get(place, np.uint8, 0)
        else:
            values = self._get(place, self.gguf_scalar_to_np[GGUFValueType(kind)], count)
            place += values.nbytes
        return place - orig_offs, [values], [], [GGUFValueType.ARRAY]

    def _build_tensor_info(self, offs: int, count: int) -> tuple[int, list[ReaderField]]:
        if count > _MOST_FIELDS:
            raise ValueError(f"{count} tensors")
        return super()._build_tensor_info(offs, count)

    def _build_tensors(self, start_offs: int, fields: list[ReaderField]) -> None:
        for field in fields:
            _, _, _, sides, (kind,), (start,) = field.parts
            name, shape, kind = field.name, tuple[int, ...](sides[::-1].tolist()), int(kind)
            if name in self.places or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
                raise ValueError(f"it holds '{name[:_LONGEST_NAME]}' twice, or a name that is none")
            if len(shape) > _MOST_AXES or not 0 < prod(shape) <= _MOST_ELEMENTS:
                raise ValueError(f"tensor '{name}' has the shape {shape}"[:_LONGEST_NAME])
            values, size, more = block_size(kind)
            if not values:
                raise ValueError(f"tensor '{name}' is of type {kind}, which is not known")
            if shape[-1] % values:
                raise ValueError(f"rows of tensor '{name}' are no whole blocks")
            place = Place(shape, kind, start_offs + int(start), prod(shape) // values * size + more)
            if place.start + place.size > len(self.data):
                raise ValueError(f"it ends within tensor '{name}'")
            self.places[name] = place
