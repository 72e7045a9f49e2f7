"""Files that carry their own SHA-256: put in, and checked when such a file is read.

A seal is 64 hexadecimal digits in a frame at a fixed place: metadata that the format has, or bytes
behind its end that its readers skip. The digest is that of the file with noughts for the digits.
Tools that write a file anew move or drop the frame, and then the file counts as one without a seal;
a file with a frame, whole or nearly, must agree with it. Who may have changed a file on purpose and
computed the digest again is told by signatures alone (`runtime.security.signing`).
"""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import Buffer

from .errors import IntegrityError

_DIGITS = 64
_NEAR = 0.75
"""The share of a frame's bytes from which on a file counts as sealed, and its frame as damaged."""


@dataclass(frozen=True)
class _Frame:
    """What stands around the digits, and where it starts; `None` for what ends with the file."""

    before: bytes
    after: bytes = b""
    start: int | None = 0

    @property
    def empty(self) -> bytes:
        """With noughts for digits."""
        return self.before + b"0" * _DIGITS + self.after

    def place(self, size: int) -> int:
        """Where the frame starts in a file of a size, which may be too small for it: negative."""
        start = size - len(self.empty) if self.start is None else self.start
        return start if start + len(self.empty) <= size else -1


_KEY = b"triton_dsl.sha256"
# An entry of `metadata_props`, field 14: a string of 17 bytes, and one of 64. Protobuf takes fields
# in any order, and writes them by number: behind the model, where it is no seal any more.
_ONNX = _Frame(b"\x72" + bytes([85, 0x0A, len(_KEY)]) + _KEY + bytes([0x12, _DIGITS]))
# What readers of a FlatBuffer never reach: no offset leads behind what was there.
_BEHIND = _Frame(b"\0" * 14 + b"\n" + _KEY + b":", b"\n", start=None)

_FRAMES = {
    ".onnx": _ONNX,
    ".tflite": _BEHIND,
    ".safetensors": _Frame(b'{"__metadata__":{"' + _KEY + b'":"', b'"', start=8),
    "manifest": _Frame(b'{\n  "#sha256": "', b'",\n'),
}
"""By suffix; that of a manifest (`lowering.artifact`) is JSON indented by two, the seal first."""


def sealed(suffix: str, content: bytes) -> bytes:
    """A file with its seal; as it is where the suffix, as `.onnx`, is of a kind that has none."""
    frame = _FRAMES.get(suffix)
    if frame is None:
        return content
    if suffix == ".safetensors":
        content = _with_metadata(content)
    elif suffix == "manifest":
        content = frame.empty + content.removeprefix(b"{\n")
    else:
        content = content + frame.empty if frame.start is None else frame.empty + content
    at = frame.place(len(content)) + len(frame.before)
    view = memoryview(content)
    return b"".join((view[:at], _digest(content, at), view[at + _DIGITS :]))


def _with_metadata(content: bytes) -> bytes:
    """A safetensors file whose header starts with an empty frame."""
    end = 8 + int.from_bytes(content[:8], "little")
    entries = json.loads(content[8:end])
    metadata = {_KEY.decode(): "0" * _DIGITS, **entries.pop("__metadata__", {})}
    entries = {"__metadata__": metadata, **entries}
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[end:]


def is_whole(suffix: str, content: Buffer, what: str) -> bool:
    """Whether a file has a seal, and agrees with it; `what` it is, messages say.

    Raises:
        IntegrityError: it has a seal and does not agree with it.
    """
    frame = _FRAMES.get(suffix)
    view = memoryview(content)
    start = -1 if frame is None else frame.place(len(view))
    if frame is None or start < 0:
        return False
    at = start + len(frame.before)
    found = bytes(view[start:at]) + bytes(view[at + _DIGITS :][: len(frame.after)])
    wanted = frame.before + frame.after
    same = sum(a == b for a, b in zip(found, wanted, strict=True))
    if same < _NEAR * len(wanted):
        return False
    stated, digest = bytes(view[at : at + _DIGITS]), _digest(view, at)
    if found != wanted or stated != digest:
        raise IntegrityError(
            f"{what} is not what was written: its SHA-256 is {digest.decode()}, "
            f"and it carries {stated.decode('ascii', 'replace')}; get it again, or make it again"
        )
    return True


def _digest(content: Buffer, at: int) -> bytes:
    import hashlib  # it loads OpenSSL

    view = memoryview(content)
    state = hashlib.sha256(view[:at])
    state.update(b"0" * _DIGITS)
    state.update(view[at + _DIGITS :])
    return state.hexdigest().encode()


def check_file(path: Path) -> bool:
    """Whether a file has a seal, and agrees with it; what cannot be read has none.

    Raises:
        IntegrityError: it has a seal and does not agree with it.
    """
    if path.suffix not in _FRAMES or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # an empty file cannot be mapped
        return False
    return is_whole(path.suffix, content, f"'{path}'")
