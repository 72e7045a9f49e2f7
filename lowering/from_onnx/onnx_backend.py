"""`onnx.backend.base.Backend` on the importer and the reference interpreter.

The interface that the standard's own tests run against. A model is imported when it runs, for the
shapes of the inputs it gets; inputs that must be known before, such as the sizes of a reshape,
become constants of the program. Not here: engines that compile (`lowering.targets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from ...dialects.interpret import entry_function, run_module
from ...ir.arrays import Array
from ...ir.errors import SourceError, UnsupportedError
from ...ir.value_names import argument_names
from .formats import FORMAT_ATTRIBUTE, FORMATS, format_of
from .importer import Imported, import_model
from .inputs import InputValue
from .reading import read_model, require_onnx

if TYPE_CHECKING:
    from onnx import ModelProto

Output: TypeAlias = Array | list[Array]
"""A tensor, or a sequence of them."""

Inputs: TypeAlias = dict[str, InputValue] | list[InputValue] | tuple[InputValue, ...] | Array
"""Values by the names of inputs or in their order; an array is the only one."""


class Prepared:
    """A model that runs in the reference interpreter; a `BackendRep`.

    Attributes:
        model: what was prepared.
        inputs: the names of what it takes.
        known: those that the last run made constants of the program.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model, _, _ = read_model(model)
        stored = {tensor.name for tensor in self.model.graph.initializer}
        self.inputs = [info.name for info in self.model.graph.input if info.name not in stored]
        self.known: list[str] = []

    def run(self, inputs: Inputs, **kwargs: object) -> tuple[Output, ...]:
        """The outputs of the model.

        Raises:
            SourceError: too many or too few inputs, or no ONNX model.
            UnsupportedError: names every node that is refused.
        """
        values = self._named(inputs)
        imported = self._imported(values)
        names = argument_names(entry_function(imported.module, "forward"))
        arrays = [_stored(np.asarray(values[name])) for name in names]
        results = _restored(imported.module, run_module(imported.module, arrays))
        outputs: list[Output] = []
        for count in imported.groups:
            if count is None:
                outputs.append(results.pop(0))
            else:
                outputs.append(results[:count])
                del results[:count]
        return tuple(outputs)

    def _named(self, inputs: Inputs) -> dict[str, InputValue]:
        if isinstance(inputs, dict):
            return dict(inputs)
        values = inputs if isinstance(inputs, list | tuple) else [inputs]
        if len(values) > len(self.inputs):
            raise SourceError(f"the model takes {len(self.inputs)} inputs, not {len(values)}")
        return dict(zip(self.inputs, values, strict=False))

    def _imported(self, values: dict[str, InputValue]) -> Imported:
        shapes: dict[str, tuple[int, ...]] = {
            n: value.shape for n, value in values.items() if isinstance(value, np.ndarray)
        }
        constants: dict[str, InputValue] = {
            name: value for name, value in values.items() if not isinstance(value, np.ndarray)
        }
        while True:
            inputs = {n: s for n, s in shapes.items() if n not in constants}
            imported = import_model(self.model, shapes=inputs, constants=constants)
            more = {n: values[n] for n in imported.needed if n in values and n not in constants}
            self.known = [*constants]
            if not imported.problems:
                return imported
            if not more:
                raise UnsupportedError("IR", imported.problems)
            constants.update(more)


def _stored(array: Array) -> Array:
    format = format_of(array.dtype)
    return array if format is None else format.stored(array)


def _restored(module: ModuleOp, results: Sequence[Array]) -> list[Array]:
    """Results that are bytes of other elements as these."""
    attributes = entry_function(module, "forward").res_attrs
    arrays = list(results)
    for index, entry in enumerate(attributes.data if attributes is not None else ()):
        name = entry.data.get(FORMAT_ATTRIBUTE)
        if isinstance(name, StringAttr):
            (format,) = (f for f in FORMATS.values() if f.shown == name.data)
            arrays[index] = format.restored(arrays[index])
    return arrays


@cache
def reference_backend() -> type[Any]:
    """A class that implements `onnx.backend.base.Backend`; the device is always the CPU.

    Its `prepare(model)` gives a `Prepared`, `run_model(model, inputs)` the outputs.

    Raises:
        BackendError: the `onnx` package is missing.
    """
    require_onnx()
    from onnx.backend.base import Backend

    class ReferenceBackend(Backend):
        """Models in the reference interpreter."""

        @classmethod
        def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: object) -> Any:
            """A model, ready to run any number of times."""
            del device, kwargs
            return Prepared(model)

        @classmethod
        def run_model(
            cls, model: ModelProto, inputs: Inputs, device: str = "CPU", **kwargs: object
        ) -> tuple[Output, ...]:
            """The outputs of a model; see `Prepared.run`."""
            return cls.prepare(model, device).run(inputs, **kwargs)

        @classmethod
        def supports_device(cls, device: str) -> bool:
            """Whether `device` is the CPU."""
            return device.split(":")[0] == "CPU"

    return ReferenceBackend
