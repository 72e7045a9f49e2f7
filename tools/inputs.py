"""Programs of command lines, and what they run on: arrays of files, recorded spikes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..dialects.elements import numpy_dtype
from ..dialects.shapes import DYNAMIC, is_float
from ..dialects.spike.types import dense_type
from ..ir.arrays import Array
from ..ir.errors import BackendError, InputError, OptionError
from ..ir.extras import install
from ..ir.interpreter import entry_function
from ..ir.pipeline import parse_pipeline
from ..ir.samples import read_samples
from ..ir.value_names import argument_names
from ..lowering.models import import_model
from ..lowering.sources.source import Source
from ..lowering.stages import apply_passes
from ..passes.universe import everything
from ..runtime.equivalence import is_approximate
from ..runtime.random_values import fill_parameters
from .commands.options.common import OfProgram, OnInputs
from .draws import ORDINARY, TIMESTEPS, draw, random_arrays


def changes_results(pipeline: str) -> bool:
    """Whether a pass of a pipeline given as text changes results on purpose."""
    return any(map(is_approximate, parse_pipeline(pipeline, everything().all_passes)))


def bind_inputs(module: ModuleOp, arrays: Mapping[str, Array]) -> list[Array]:
    """`arrays` in the order of the arguments of `@forward`, converted where no value changes.

    Floats are rounded to the argument's type.

    Raises:
        OptionError: a missing or superfluous input, or one of wrong shape or dtype.
    """
    function = entry_function(module, "forward")
    names = argument_names(function)
    arguments = list(function.body.block.args)
    if set(arrays) == {""} or (len(arrays) == len(names) == 1 and set(arrays) != set(names)):
        arrays = {names[0]: next(iter(arrays.values()))} if len(names) == 1 else arrays
    if set(arrays) != set(names):
        raise InputError(
            f"the model takes the inputs {', '.join(names) or 'none'}; "
            f"the file has {', '.join(n or 'one without a name' for n in sorted(arrays)) or 'none'}"
        )
    bound: list[Array] = []
    for name, argument in zip(names, arguments, strict=True):
        type = dense_type(argument)
        dtype, array = numpy_dtype(type.element_type), arrays[name]
        shape = type.get_shape()
        fits = len(shape) == array.ndim and all(
            want in (DYNAMIC, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits:
            raise InputError(
                f"input '{name}': expected {argument.type}, got {array.dtype}{list(array.shape)}"
            )
        with np.errstate(all="ignore"):
            converted = array.astype(dtype)
        both_floats = array.dtype.kind == "f" and is_float(type)
        if not both_floats and not np.array_equal(converted, array):
            raise InputError(
                f"input '{name}': expected {argument.type}, got {array.dtype}{list(array.shape)} "
                f"with values that {dtype} cannot hold"
            )
        bound.append(converted)
    return bound


def imported(options: OfProgram, *, rounding: str | None = None) -> ModuleOp:
    """The program of a command line, as it is before passes."""
    weights, layer, dt = options.weights, options.layer, options.dt
    return import_model(options.file, weights=weights, layer=layer, dt=dt, rounding=rounding)


def prepare(
    module: ModuleOp,
    options: OnInputs,
    *,
    passes: str | None = None,
    timesteps: int = TIMESTEPS,
    source: Source | None = None,
) -> tuple[ModuleOp, list[Array]]:
    """The module after passes, and its inputs: those of a file, or random ones.

    With `--random-weights` parameters without values get seeded random ones before the passes run.
    Random inputs are such as the engine of `source` takes too.

    Args:
        module: what was imported; changed.
        options: of the command line.
        passes: in place of those of the command line.
        timesteps: of random inputs with time first, where the program leaves them open.
        source: what the program was imported from.
    """
    if options.random_weights:
        module = fill_parameters(module, options.seed)
    apply_passes(module, options.passes if passes is None else passes)
    if options.inputs is None:
        count, seed = options.samples, options.seed
        drawn = draw(module, ORDINARY, count, seed, timesteps, source)
        return module, drawn or random_arrays(module, count, seed, timesteps)
    recorded = _recorded_spikes(module, options.inputs)
    return module, bind_inputs(module, recorded or read_samples(options.inputs))


def _recorded_spikes(module: ModuleOp, path: Path) -> dict[str, Array] | None:
    """The train of a file of `SpikeTensor.save`, of the rank that the program's only input has.

    Raises:
        InputError: an axis that the input lacks has another size than 1.
        BackendError: PyTorch is missing.
    """
    if path.suffix != ".safetensors":
        return None
    from safetensors import SafetensorError, safe_open

    try:
        opened: Any = safe_open(str(path), framework="np")
        with opened as file:
            metadata: dict[str, str] = file.metadata() or {}
    except (OSError, SafetensorError):
        return None  # whoever reads it as samples says what is wrong
    arguments = entry_function(module, "forward").body.block.args
    if "spike_tensor" not in metadata or len(arguments) != 1:
        return None
    try:
        from ..runtime.spiking.spike_tensor import SpikeTensor
    except ImportError:
        raise BackendError(f"reading '{path}' needs PyTorch: {install('torch')}") from None
    rank = dense_type(arguments[0]).get_num_dims()
    train = SpikeTensor.load(path)
    try:
        return {"": train.to_train(rank).numpy()}
    except OptionError as error:
        raise InputError(f"'{path}': {error}") from None
