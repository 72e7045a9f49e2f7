"""What a Python program is given of a record: `explore`. Not here: the record and its forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...ir.arrays import Array
from ...lowering.models import Model
from ...lowering.sources.source import Source
from .formats import written
from .page import frame
from .record import record_of


@dataclass(frozen=True, repr=False)
class Exploration:
    """What is known of a program, to be looked at.

    Attributes:
        data: JSON data, as the docstring of `record` says.
    """

    data: dict[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        stages = ", ".join(stage["name"] for stage in self.data["stages"])
        return f"Exploration({self.data['title']!r}: {stages})"

    def _repr_html_(self) -> str:
        return frame(self.data)

    def differences(self) -> list[str]:
        """What is refused, or differs beyond rounding without being meant to: a text for each."""
        found: list[str] = []
        for stage in self.data["stages"]:
            for check in stage["checks"]:
                if check["kind"] == "refusal":
                    found.append(
                        f"stage '{stage['name']}': {check['name']} refuses it: {check['note']}"
                    )
                elif not check["agrees"]:
                    first = check["first"]
                    op = "" if first is None else f", first at '{stage['ops'][first]['name']}'"
                    found.append(f"stage '{stage['name']}' differs from {check['name']}{op}")
        return found

    def content(self, form: str = "html", stage: str | None = None) -> bytes:
        """A form of it as a file has it.

        Args:
            form: `html`, `json`, `dot`, `netron` (an ONNX file) or `model-explorer` (JSON).
            stage: its name, for forms of one stage; by default the last one before targets.

        Raises:
            OptionError: no such form or stage.
            BackendError: `netron` without the package `onnx`.
        """
        return written(self.data, form, stage)

    def save(self, path: str | Path, form: str = "html", stage: str | None = None) -> None:
        """Write a form of it, see `content`."""
        Path(path).write_bytes(self.content(form, stage))


def explore(
    model: Model,
    inputs: Sequence[Array] | None = None,
    *,
    passes: str = "",
    targets: Sequence[str] = (),
    source: Source | None = None,
    path: Path | None = None,
) -> Exploration:
    """Record a program and look at it: in a notebook, or as a page (`save`).

    See `record.record_of` for the arguments and errors.

    Example: explore("model.onnx", [image], targets=["onnx"]).save("page.html")
    """
    return Exploration(
        record_of(model, inputs, passes=passes, targets=targets, source=source, path=path)
    )
