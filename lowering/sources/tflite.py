"""TFLite models in LiteRT: on its reference kernels, which round as the importer says.

Where these lack an operator, its other kernels run the model, without XNNPACK where that goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError
from ..from_tflite.model import read_model
from ..to_tflite.engine import run_tflite, tensors_of
from ..to_tflite.graph import Element
from .source import Source, Values

KERNELS: dict[str, dict[str, bool]] = {
    "reference kernels": {"reference": True},
    "built-in kernels": {"delegates": False},
    "XNNPACK": {"delegates": True},
}
"""What can run a model, the best first, with the arguments of `run_tflite`."""

_WRONG = {
    "CONV_2D": (Element.INT2,),
    "DEPTHWISE_CONV_2D": (Element.INT2, Element.INT4),
}
"""Elements of weights with which LiteRT 2.3.0 gives NaN or wrong numbers."""

_WRONG_REFERENCE = ("SUM",)
"""Operators on integers that only the reference kernels of LiteRT 2.3.0 get wrong."""


class TFLiteSource(Source):
    """A TFLite model.

    Args:
        model: a path, or the bytes of a file.
        rounding: as in `from_tflite`; with `xnnpack` those kernels are the first that run it.

    Raises:
        SourceError: no TFLite model.
    """

    def __init__(self, model: bytes | Path, rounding: str = "reference") -> None:
        self.model = read_model(model)
        self.data = model if isinstance(model, bytes) else model.read_bytes()
        self.size = len(self.data)
        self.engine = "none"
        self._kernels: str | None = "XNNPACK" if rounding == "xnnpack" else None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Source.run`."""
        from importlib.metadata import PackageNotFoundError, version

        self._refuse_wrong()
        refusals: dict[str, None] = {}
        for name, arguments in KERNELS.items():
            if self._kernels not in (None, name) or (
                arguments.get("reference") and self._is_wrong_in_reference()
            ):
                continue
            try:
                outputs = run_tflite(self.data, inputs, **arguments)
            except BackendError as error:
                refusals[str(error)] = None
                continue
            try:
                self.engine = f"litert {version('ai-edge-litert')} ({name})"
            except PackageNotFoundError:
                self.engine = f"litert ({name})"
            self._kernels = name
            return outputs
        raise BackendError("; ".join(refusals))

    def values(self, inputs: Sequence[Array]) -> Values:
        """See `Source.values`; images as in the file, channels last."""
        if self._kernels is None:
            self.run(inputs)
        tensors = tensors_of(self.data, inputs, **KERNELS[self._kernels or "XNNPACK"])
        results: Values = {}
        for index, operator in enumerate(self.model.operators):
            shown = [self.model.tensors[n].name for n in operator.outputs]
            name = next(filter(None, shown), operator.kind).partition(";")[0]
            values = [tensors[n] for n in operator.outputs if n in tensors]
            results[name, index + 1] = [np.asarray(value) for value in values]
        return results

    def _is_wrong_in_reference(self) -> bool:
        return any(
            operator.kind in _WRONG_REFERENCE
            and self.model.tensors[operator.inputs[0]].integers is not None
            for operator in self.model.operators
        )

    def _refuse_wrong(self) -> None:
        for operator in self.model.operators:
            weights = [self.model.tensors[n] for n in operator.inputs[1:2] if n >= 0]
            if any(weight.type in _WRONG.get(operator.kind, ()) for weight in weights):
                raise BackendError(
                    f"LiteRT gives wrong numbers for {operator.kind} with weights of few bits"
                )
