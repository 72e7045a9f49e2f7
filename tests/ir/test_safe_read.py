"""Files of strangers: pipes, devices, folders, too much, and what is no text."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from triton_dsl import import_model
from triton_dsl.ir.errors import OptionError, SourceError, TritonError
from triton_dsl.ir.safe_read import accessing, opened


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    with opened(path, 5, SourceError) as file:
        assert file.read() == b"12345"
    with pytest.raises(SourceError, match="is larger than 4 bytes"), opened(path, 4, SourceError):
        pytest.fail("it was opened")


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".tpk"])
def test_what_may_not_end_is_not_read(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(TritonError):
        import_model(tmp_path / f"folder{suffix}")
    if sys.platform != "win32":
        pipe = tmp_path / f"pipe{suffix}"
        os.mkfifo(pipe)
        with pytest.raises(TritonError, match="is no file"):
            import_model(pipe)


def test_what_the_system_says_is_told_of_what_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the card: No such file"), accessing("the card"):
        (tmp_path / "none").read_text(encoding="utf-8")
    (tmp_path / "bytes").write_bytes(b"ab\xff")
    with pytest.raises(OptionError, match="not UTF-8 text at byte 2"), accessing("the card"):
        (tmp_path / "bytes").read_text(encoding="utf-8")
