"""What command lines run programs on: arrays of files, recorded spikes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.errors import OptionError
from ..ir.interpreter import entry_function
from .draws import ORDINARY, TIMESTEPS, draw, random_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp

    from ..lowering.sources.source import Source


def changes_results(pipeline: str) -> bool:
    """Whether a pass of a pipeline given as text changes results on purpose."""
    from ..ir.pipeline import parse_pipeline
    from ..passes.universe import everything
    from ..runtime.equivalence import is_approximate

    return any(map(is_approximate, parse_pipeline(pipeline, everything().all_passes)))


def apply_passes(module: ModuleOp, pipeline: str) -> None:
    """Run a pass pipeline given as text on `module`."""
    from ..lowering.stages import Stage, run_stages

    run_stages(module, [Stage("passes", pipeline)])


def bind_inputs(module: ModuleOp, arrays: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """`arrays` in the order of the arguments of `@forward`, converted where no value changes.

    Floats are rounded to the argument's type.

    Raises:
        OptionError: a missing or superfluous input, or one of wrong shape or dtype.
    """
    import numpy as np

    from ..dialects.elements import numpy_dtype
    from ..dialects.shapes import DYNAMIC, is_float
    from ..dialects.spike.types import dense_type
    from ..lowering.emission import argument_names

    function = entry_function(module, "forward")
    names = argument_names(function)
    arguments = list(function.body.block.args)
    if set(arrays) == {""} or (len(arrays) == len(names) == 1 and set(arrays) != set(names)):
        arrays = {names[0]: next(iter(arrays.values()))} if len(names) == 1 else arrays
    if set(arrays) != set(names):
        raise OptionError(
            f"the model takes the inputs {', '.join(names) or 'none'}; "
            f"the file has {', '.join(n or 'one without a name' for n in sorted(arrays)) or 'none'}"
        )
    bound: list[NDArray[Any]] = []
    for name, argument in zip(names, arguments, strict=True):
        type = dense_type(argument)
        dtype, array = numpy_dtype(type.element_type), arrays[name]
        shape = type.get_shape()
        fits = len(shape) == array.ndim and all(
            want in (DYNAMIC, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits:
            raise OptionError(
                f"input '{name}': expected {argument.type}, got {array.dtype}{list(array.shape)}"
            )
        with np.errstate(all="ignore"):
            converted = array.astype(dtype)
        both_floats = array.dtype.kind == "f" and is_float(type)
        if not both_floats and not np.array_equal(converted, array):
            raise OptionError(
                f"input '{name}': expected {argument.type}, got {array.dtype}{list(array.shape)} "
                f"with values that {dtype} cannot hold"
            )
        bound.append(converted)
    return bound


def prepare(
    module: ModuleOp,
    *,
    passes: str,
    inputs: Path | None,
    samples: int,
    seed: int,
    fill: bool,
    timesteps: int = TIMESTEPS,
    source: Source | None = None,
) -> tuple[ModuleOp, list[NDArray[Any]]]:
    """The module after `passes`, and its inputs: those of a file, or random ones.

    With `fill`, parameters without values get seeded random ones before the passes run. Random
    inputs are such as the engine of `source` takes too.
    """
    if fill:
        from ..runtime.random_values import fill_parameters

        module = fill_parameters(module, seed)
    if passes:
        apply_passes(module, passes)
    if inputs is None:
        drawn = draw(module, ORDINARY, samples, seed, timesteps, source)
        return module, drawn or random_arrays(module, samples, seed, timesteps)
    from ..ir.samples import read_samples

    recorded = _recorded_spikes(module, inputs)
    return module, bind_inputs(module, recorded or read_samples(inputs))


def _recorded_spikes(module: ModuleOp, path: Path) -> dict[str, NDArray[Any]] | None:
    """The train of a file of `SpikeTensor.save`, of the rank that the program's only input has.

    Raises:
        OptionError: an axis that the input lacks has another size than 1.
        BackendError: PyTorch is missing.
    """
    from safetensors import SafetensorError, safe_open

    if path.suffix != ".safetensors":
        return None
    try:
        opened: Any = safe_open(str(path), framework="np")
        with opened as file:
            metadata: dict[str, str] = file.metadata() or {}
    except (OSError, SafetensorError):
        return None  # whoever reads it as samples says what is wrong
    arguments = entry_function(module, "forward").body.block.args
    if "spike_tensor" not in metadata or len(arguments) != 1:
        return None
    from ..dialects.spike.types import dense_type
    from ..ir.errors import BackendError

    try:
        from ..runtime.spiking.spike_tensor import SpikeTensor
    except ImportError:
        raise BackendError(
            f"reading '{path}' needs PyTorch: pip install 'triton-dsl[torch]'"
        ) from None
    rank = dense_type(arguments[0]).get_num_dims()
    return {"": SpikeTensor.load(path).to_train(rank).numpy()}
