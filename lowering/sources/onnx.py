"""ONNX models in ONNX Runtime; where it is known to be wrong, in the standard's own evaluator.

ONNX Runtime runs each node as the file states it, without its optimisations: some of them are wrong
or round otherwise. Operators of qonnx are computed by that package, where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError, OptionError, first_line
from ...ir.extras import install
from ...runtime.engines import open_session, require_runtime, run_session
from ..from_onnx.formats import format_of
from ..from_onnx.reading import read_model, require_onnx
from .onnx_faults import mended_operators, runtime_fault
from .source import Place, Source, Values

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

T = TypeVar("T")

Output = Array | list[Array]
"""A tensor, or a sequence of them."""

Run = Callable[["ModelProto", Mapping[str, Array]], Sequence[Output]]
"""The outputs of a model for inputs by name."""

QONNX = frozenset({"qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"})
"""Domains of operators that neither the runtime nor the standard knows."""


class OnnxSource(Source):
    """An ONNX model.

    Args:
        given: a path, the bytes of a file, or an `onnx.ModelProto`.
        constants: values of inputs that became part of the program, by name; see `from_onnx`.

    Raises:
        SourceError: no ONNX model.
        BackendError: the `onnx` package is missing.
    """

    def __init__(
        self,
        model: Path | str | bytes | ModelProto,
        *,
        constants: Mapping[str, Array] | None = None,
    ) -> None:
        self.model, self.where, self.folder = read_model(model)
        self.constants = dict(constants or {})
        self.engine = "none"
        self._run: Run | None = None
        self._operators: list[type[OpRun]] = []
        if isinstance(model, str | Path):
            self.size = Path(model).stat().st_size

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Source.run`."""
        return _stored(self._runner()(self.model, self._feed(inputs)))

    def _runner(self) -> Run:
        """The first engine that takes the model."""
        if self._run is None:
            refusals: list[str] = []
            for name, engine in self._engines(refusals):
                self.engine, self._run = name, engine
                return engine
            raise BackendError("; ".join(refusals))
        return self._run

    def values(self, inputs: Sequence[Array]) -> Values:
        run = self._runner()
        onnx = require_onnx()
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.graph.output[:]
        places: dict[str, Place] = {}
        for index, node in enumerate(model.graph.node):
            names: list[str] = [name for name in node.output if name]
            shown = str(node.name or (names or [node.op_type])[0])
            places.update(dict.fromkeys(names, (shown, index + 1)))
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in places)
        results: Values = {}
        for place, value in zip(places.values(), run(model, self._feed(inputs)), strict=True):
            if isinstance(value, np.ndarray):
                results.setdefault(place, []).append(_as_stored(value))
        return results

    def _feed(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """Inputs by name, of the types that the model states."""
        graph = self.model.graph
        stored = {tensor.name for tensor in graph.initializer}
        fed = [i for i in graph.input if i.name not in stored and i.name not in self.constants]
        if len(fed) != len(inputs):
            names = ", ".join(info.name for info in fed)
            raise OptionError(
                f"{self.where} takes {len(fed)} inputs ({names}), the program {len(inputs)}; "
                "give those that became constants: source=OnnxSource(file, constants={…})"
            )
        types = require_onnx().helper.tensor_dtype_to_np_dtype
        feed = dict(self.constants)
        for info, array in zip(fed, inputs, strict=True):
            format = format_of(types(info.type.tensor_type.elem_type))
            feed[info.name] = array if format is None else format.restored(array)
        return feed

    def _engines(self, refusals: list[str]) -> Iterator[tuple[str, Run]]:
        """Engines with names and versions, the best one first; says why one is left out."""
        from importlib.metadata import version

        if any(node.domain in QONNX for node in self.model.graph.node):
            if find_spec("qonnx") is not None:
                for node in self.model.graph.node:  # exporters leave their domains out
                    if node.domain not in {entry.domain for entry in self.model.opset_import}:
                        self.model.opset_import.add(domain=node.domain, version=1)
                self._operators = _qonnx_operators(self.model)
                yield f"qonnx {version('qonnx')}", self._in_reference
                return
            refusals.append("operators of qonnx run in the package qonnx, which is not installed")
            return
        fault = _unknown_to_numpy(self.model)
        if find_spec("onnxruntime") is None:
            refusals.append(f"ONNX Runtime is missing: {install('onnx')}")
        elif (fault := fault or runtime_fault(self.model)) is None:
            try:
                self._session(self.model)
                yield f"onnxruntime {version('onnxruntime')}", self._in_runtime
            except BackendError as error:
                refusals.append(str(error))
        else:
            refusals.append(f"ONNX Runtime is left out: {fault}")
        try:
            self._evaluator(self.model)
            yield f"onnx.reference {version('onnx')}", self._in_reference
        except BackendError as error:
            refusals.append(str(error))

    def _session(self, model: ModelProto) -> Any:
        levels = require_runtime().GraphOptimizationLevel
        folder = {} if self.folder is None else {_FOLDER: str(self.folder.resolve())}
        return open_session(
            model.SerializeToString(),
            configure={"graph_optimization_level": levels.ORT_DISABLE_ALL},
            entries=folder,
        )

    def _in_runtime(self, model: ModelProto, feed: Mapping[str, Array]) -> Sequence[Output]:
        session = self._session(model)
        return run_session(session, [feed[port.name] for port in session.get_inputs()])

    def _evaluator(self, model: ModelProto) -> ReferenceEvaluator:
        from onnx.reference import ReferenceEvaluator

        if self.folder is not None:
            require_onnx().load_external_data_for_model(model, str(self.folder))
        operators = [*self._operators, *mended_operators(model)]
        return _guarded("onnx.reference", lambda: ReferenceEvaluator(model, new_ops=operators))

    def _in_reference(self, model: ModelProto, feed: Mapping[str, Array]) -> Sequence[Output]:
        evaluator = self._evaluator(model)
        return _guarded(
            "onnx.reference", lambda: cast("Sequence[Output]", evaluator.run(None, dict(feed)))
        )


_FOLDER = "session.model_external_initializers_file_folder_path"


def _unknown_to_numpy(model: ModelProto) -> str | None:
    """Why the runtime cannot be given its inputs; `None` where it can."""
    types = require_onnx().helper.tensor_dtype_to_np_dtype
    for info in (*model.graph.input, *model.graph.output):
        kind = info.type.tensor_type.elem_type
        if kind and np.dtype(types(kind)).isbuiltin != 1:
            return f"'{info.name}' has elements that NumPy does not pass on"
    return None


def _qonnx_operators(model: ModelProto) -> list[type[OpRun]]:
    """The operators of a model that qonnx defines, for `onnx.reference`: qonnx computes them."""
    from onnx.reference.op_run import OpRun

    registry: Any = import_module("qonnx.custom_op.registry")

    def run(self: Any, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        node = self.onnx_node
        values = dict(zip(node.input, inputs, strict=False))
        registry.getCustomOp(node).execute_node(values, None)
        return tuple(values[name] for name in node.output)

    named = {(node.domain, node.op_type) for node in model.graph.node if node.domain in QONNX}
    return [type(op, (OpRun,), {"op_domain": domain, "_run": run}) for domain, op in sorted(named)]


def _guarded(engine: str, run: Callable[[], T]) -> T:
    try:
        with np.errstate(all="ignore"):
            return run()
    except Exception as error:  # evaluators raise whatever NumPy and their operators do
        text = first_line(error)
        raise BackendError(f"{engine} refuses the model: {text}") from error


def _stored(outputs: Sequence[Output]) -> list[Array]:
    """Outputs as the program gives them: sequences one by one, small types in bytes."""
    stored: list[Array] = []
    for value in outputs:
        stored += map(_as_stored, value if isinstance(value, list) else [value])
    return stored


def _as_stored(value: Array) -> Array:
    array = np.asarray(value)
    format = format_of(array.dtype)
    return array if format is None else format.stored(array)
