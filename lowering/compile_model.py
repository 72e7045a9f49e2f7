"""`compile_model`, and the interface for back ends that others write.

Two ways to add a target. A `BackendBase` sees the checked syntax tree of one layer and gives text:
the simplest thing that can work. A `lowering.targets.Target` sees IR after its own pass pipeline
and gives an artefact: what the built-in targets are. Both are named in `compile_model(backend=…)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.errors import BackendError, OptionError, did_you_mean
from ..ir.extras import plug_ins
from ..ir.interpreter import entry_function
from ..ir.notebook import html_table, module_html
from ..ir.value_names import argument_names, result_names
from .artifact import write_artifact
from .models import ExampleInputs, Model, import_model
from .targets import compile_to_target, get_all_targets, get_target, read_options

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..ir.language.nodes import LayerDef
    from .artifact import Artifact
    from .weights import Weights

ENTRY_POINTS = "triton_dsl.backends"
"""Entry-point group whose entries are back ends, see `register_backend`, by name."""


class BackendBase(ABC):
    """A target defined on the syntax tree. `backend_options` go to the constructor.

    One that writes text and nothing more has `generate_code` alone.
    """

    @abstractmethod
    def generate_code(self, layer_def: LayerDef) -> str:
        """The code of one checked layer."""

    def compile(self, code: str) -> Any:
        """Generated code in executable form; by default the code itself."""
        return code

    def optimize(self, compiled_model: Any) -> Any:
        """The compiled model after the back end's own optimisations; by default as it is."""
        return compiled_model


@dataclass(frozen=True, repr=False)
class CompiledModel:
    """What a built-in target makes of a model.

    Attributes:
        target: the target's name.
        module: the IR before the target's own pipeline.
        artifact: the files.
        options: the target's options that were given.
    """

    target: str
    module: ModuleOp = field(repr=False)
    artifact: Artifact = field(repr=False)
    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)

    def __repr__(self) -> str:
        files = ", ".join(f"{name}: {len(data):,} bytes" for name, data in self._files()[:3])
        more = f", and {len(self._files()) - 3} more" if len(self._files()) > 3 else ""
        (name, inputs, outputs) = self._signature()
        takes = ", ".join(f"{n}: {t}" for n, t in inputs)
        gives = ", ".join(t for _, t in outputs)
        return f"CompiledModel({self.target!r}, {name}({takes}) -> {gives}; {files}{more})"

    def _repr_html_(self) -> str:
        name, inputs, outputs = self._signature()
        rows: list[tuple[str, str, str | int]] = [
            *(("input", n, t) for n, t in inputs),
            *(("output", n, t) for n, t in outputs),
            *(("file", n, len(data)) for n, data in self._files()),
        ]
        signature = html_table(f"{name} for {self.target}", ["", "name", "type or bytes"], rows)
        return signature + module_html(self.module, 20)

    def _files(self) -> list[tuple[str, bytes]]:
        return list(self.artifact.files.items())

    def _signature(self) -> tuple[str, list[tuple[str, str]], list[tuple[str, str]]]:
        """The name, and the names and types of inputs and outputs."""
        function = entry_function(self.module, "forward")
        types = function.function_type
        inputs = zip(argument_names(function), map(str, types.inputs), strict=True)
        outputs = zip(result_names(function), map(str, types.outputs), strict=True)
        return self.artifact.name, list(inputs), list(outputs)

    def save(self, path: str | Path) -> list[Path]:
        """Write the artefact to `path`; the files written.

        It is compiled again where the path asks for another form of it (`model.so`).
        """
        target, artifact = get_target(self.target), self.artifact
        given = read_options(target, self.options)
        wanted = target.options_for(given, Path(path))
        if wanted != given:
            artifact = compile_to_target(self.module.clone(), target, wanted)
        return write_artifact(artifact, path)


_backends: dict[str, type[Any]] = {}

_ALIASES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "fpga": ("verilog", {"target_device": "device"}),
}
"""Other names of targets, with other names of their options; registered back ends come first."""


def register_backend(name: str, backend: type[Any]) -> None:
    """Make `backend` available as `compile_model(backend=name)`; a later one replaces it.

    Args:
        name: its name.
        backend: a `BackendBase`, or a `neuromorphic.backend.NeuromorphicBackend`.

    Raises:
        OptionError: `name` is that of a built-in target.
    """
    if name in get_all_targets():
        raise OptionError(f"'{name}' is the name of a target; choose another one")
    _backends[name] = backend


def get_all_backends() -> dict[str, type[Any]]:
    """Registered back ends and those of installed plug-ins, by name."""
    found: dict[str, type[Any]] = {}
    for entry in plug_ins(ENTRY_POINTS):
        try:
            found[entry.name] = entry.load()
        except Exception as error:
            raise BackendError(f"back end plug-in '{entry.name}' does not load: {error}") from error
    return {**found, **_backends}


def compile_model(
    source_file: Model,
    backend: str = "pytorch",
    backend_options: Mapping[str, object] | None = None,
    *,
    layer: str | None = None,
    weights: str | Weights | None = None,
    trainable: bool = False,
    example_inputs: ExampleInputs | None = None,
    rounding: str | None = None,
) -> Any:
    """Compile a model: a file, a PyTorch module, or IR.

    Args:
        source_file: what `lowering.models.import_model` takes: the path of a `.tri`, `.mlir`,
            `.nir`, `.onnx`, `.tflite` or `.pt2` file, an `nn.Module` with `example_inputs`, or IR,
            which stays as it is. A back end on the syntax tree takes the path of a `.tri` program.
        backend: a target (`pytorch`, `onnx`, …) or a registered back end.
        backend_options: the target's options, or the back end's constructor arguments.
        layer: of a `.tri` program the entry layer; by default the last one of the file that needs
            no generics.
        weights: of a `.tri` program or IR: a weights file or a `state_dict`.
        trainable: keep float latents of ternary weights (see `lowering.from_tri.import_tri`).
        example_inputs: of a PyTorch module (see `lowering.from_torch.from_torch`).
        rounding: of a TFLite file: whose integers (see `lowering.from_tflite.from_tflite`).

    Returns:
        A `CompiledModel` for a target; whatever `optimize` of a `BackendBase` gives.

    Raises:
        SourceError: no such file, an unknown kind of file, or errors in the program.
        OptionError: no such back end, or wrong options.
    """
    options = dict(backend_options or {})
    targets, backends = get_all_targets(), get_all_backends()
    if backend in _ALIASES and backend not in backends:
        backend, names = _ALIASES[backend]
        options = {names.get(name, name): value for name, value in options.items()}
    if backend in targets:
        module = import_model(
            source_file,
            layer=layer,
            weights=weights,
            trainable=trainable,
            example_inputs=example_inputs,
            rounding=rounding,
        )
        artifact = compile_to_target(module, backend, options)
        return CompiledModel(backend, module.clone(), artifact, options)
    if backend in backends and not issubclass(backends[backend], BackendBase):
        module = import_model(
            source_file,
            layer=layer,
            weights=weights,
            example_inputs=example_inputs,
            rounding=rounding,
        )
        return backends[backend](**options).compile(module)
    if backend in backends:
        if weights is not None or trainable or not isinstance(source_file, str | Path):
            raise OptionError(
                f"back end '{backend}' sees the syntax tree of a .tri program alone: it takes no "
                "weights and no other model, and 'trainable' means nothing to it"
            )
        return _run_backend(backends[backend], backend, options, Path(source_file), layer)
    known = sorted({*targets, *backends})
    hint = did_you_mean(backend, known)
    raise OptionError(f"no back end '{backend}'{hint or '; known: ' + ', '.join(known)}")


def _run_backend(
    kind: type[BackendBase], name: str, options: Mapping[str, object], path: Path, layer: str | None
) -> Any:
    from ..ir.language.checker import TypeChecker
    from ..ir.language.parser import read_source

    try:
        backend = kind(**options)
    except TypeError as error:
        raise OptionError(f"back end '{name}': {error}") from None
    typed = TypeChecker().check_source(read_source(path), path)
    layers = [d for d in typed.layers if layer in (None, d.name)]
    if not layers:
        wanted = f"layer '{layer}'" if layer else "layer"
        raise OptionError(f"'{path}' has no {wanted}")
    entry = typed.entry() if layer is None else None
    return backend.optimize(backend.compile(backend.generate_code(entry or layers[-1])))
