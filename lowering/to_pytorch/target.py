"""The target `pytorch`: its options, its stages, and the artefact with source and weights."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from ...dialects.parameters import parameter_value, parameters, store_of
from ...ir.arrays import Array
from ...ir.errors import LoweringError, ParameterError
from ...passes.decompose import decomposition
from ..artifact import Artifact
from ..options import TargetOptions, option
from ..stages import Stage
from ..target import Target
from .declaration import declared_keys, remember_parameters
from .module_source import RULES, TARGET, ModuleSource, module_source
from .wide_unsigned import widen_unsigned

EMBED_LIMIT = 64 * 1024
"""The most bytes of weights that `weights=embed` puts into the source."""

SPIKING = "lower-network,inline-spike-layers,lower-recurrent,convert-spike-to-tensor{spikes=floats}"
"""Passes after which neurons, loops and random spikes are left of spiking programs."""


def _takes(kind: type[Operation], element: Attribute) -> bool:
    return kind in RULES


@dataclass(frozen=True)
class PyTorchOptions(TargetOptions):
    """Options of the target `pytorch`."""

    class_name: str | None = option(None, "name of the nn.Module; by default the layer's")
    weights: Literal["file", "embed", "none"] = option(
        "file", "weights in a .safetensors file beside the source, inside it, or nowhere"
    )
    optimize: bool = option(
        False, "fold constants and fuse batch norms into products; state_dict keys then change"
    )


class PyTorchTarget(Target[PyTorchOptions]):
    """Readable Python source of an `nn.Module` that runs with torch alone."""

    name: ClassVar[str] = TARGET
    description: ClassVar[str] = "Python source of a torch.nn.Module, packed ternary weights"
    Options: ClassVar[type[TargetOptions]] = PyTorchOptions
    engine = f"{__package__}.engine:PyTorchEngine"
    engine_package = "torch"

    def prepare(self, module: ModuleOp, options: PyTorchOptions) -> None:
        """Note the program's parameters before a pass removes unused ones."""
        remember_parameters(module)
        widen_unsigned(module)

    def stages(self, options: PyTorchOptions) -> Sequence[Stage]:
        """Decompose, take trains apart, and simplify; with `optimize` also fold and fuse."""
        first = (
            Stage("decompose", decomposition(_takes)),
            Stage("spiking", SPIKING),
            Stage("simplify", "canonicalize,cse,dce"),
        )
        if not options.optimize:
            return first
        return [*first, Stage("fuse", "fold-constants,fuse-linear,canonicalize,cse,dce")]

    def emit(self, module: ModuleOp, options: PyTorchOptions) -> Artifact:
        """`NAME.py`, and `NAME.safetensors` when there are weights to write.

        Raises:
            UnsupportedError: ops without a PyTorch form.
            ParameterError: weights that are incomplete or do not fit.
            LoweringError: weights too large to embed.
        """
        name, arrays = options.class_name, _stored(module) if options.weights != "none" else {}
        plain = module_source(module, class_name=name)
        stem = file_stem(plain.class_name)
        if not arrays:
            return Artifact(stem, {f"{stem}.py": plain.text.encode()}, primary=f"{stem}.py")
        data = _safetensors(arrays, plain)
        if options.weights == "embed":
            if len(data) > EMBED_LIMIT:
                raise LoweringError(
                    f"weights of {len(data)} bytes are too large to embed (at most {EMBED_LIMIT}); "
                    "use weights=file"
                )
            text = b64encode(data).decode()
            source = module_source(module, class_name=name, weights="embed", embedded=text)
            return Artifact(stem, {f"{stem}.py": source.text.encode()}, primary=f"{stem}.py")
        source = module_source(module, class_name=name, weights="file")
        files = {f"{stem}.py": source.text.encode(), f"{stem}.safetensors": data}
        return Artifact(stem, files, primary=f"{stem}.py")


def file_stem(class_name: str) -> str:
    """`LinearClassifier` gives `linear_classifier`."""
    letters: list[str] = []
    for before, letter in zip(f"_{class_name}", class_name, strict=False):
        if letter.isupper() and (before.islower() or before.isdigit()):
            letters.append("_")
        letters.append(letter.lower())
    return "".join(letters)


def _stored(module: ModuleOp) -> dict[str, Array]:
    """Every parameter's stored array (trits packed), checked; empty when there are no weights.

    Raises:
        ParameterError: some parameters have values and others have none.
    """
    store = store_of(module)
    ops = {op.key.data: op for op in parameters(module)}
    keys = declared_keys(module)
    missing = [key for key in keys if key not in store]
    if len(missing) == len(keys):
        return {}
    if missing:
        raise ParameterError(f"no values for parameters {', '.join(missing)}")
    for op in ops.values():
        parameter_value(op)
    return {key: store.read(key) for key in keys}


def _safetensors(arrays: Mapping[str, Array], source: ModuleSource) -> bytes:
    from safetensors.numpy import save

    return save({source.state_keys[key]: _narrow(arrays[key]) for key in sorted(arrays)})


def _narrow(array: Array) -> Array:
    """Integers that 8 bits hold in 8 bits: `load_state_dict` widens them to what the buffer has."""
    array = np.asarray(array, order="C")
    if array.dtype.kind != "i" or not array.size or array.min() < -128 or array.max() > 127:
        return array
    return array.astype(np.int8)
