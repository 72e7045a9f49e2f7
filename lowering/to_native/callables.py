"""Native programs and layers: what generates code joined with what compiles and runs it.

`native_program(module)` gives a callable for a whole program. `native_linear(trits)` gives a layer
for a matrix [outs, ins] with values -1, 0, 1; called on int8 activations it gives exact int32, on
float32 activations float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr

from ...dialects.parameters import store_of
from ...ir.errors import OptionError
from ...runtime.native.abi.attention import Heads
from ...runtime.native.abi.interface import ARRAYS, FORWARD, KEPT, WORKSPACE_BYTES
from ...runtime.native.abi.linear import KIND_NAMED, Kind, Layout, Precision
from ...runtime.native.abi.phases import PHASE
from ...runtime.native.abi.row_products import RowKind
from ...runtime.native.cache import ObjectCache
from ...runtime.native.jit import Library, kept
from ...runtime.native.loading import load_program, program_bytes
from ...runtime.native.packed import PackedWeights
from ...runtime.native.processor import host_features
from ...runtime.native.program import NativeProgram
from ...runtime.native.ternary_linear import Provider, TernaryLinear
from ..models import Model, import_model
from ..options import parse_options
from ..stages import run_stages
from ..target import source_hash
from .arrays import arrays_entry
from .export import check_lowered, program_constants
from .interface import noted_interface
from .kernels.attention import attention_module
from .kernels.kernel import fingerprint, kernel_module
from .kernels.parallel import call_functions
from .kernels.recipes import Recipe, recipe_for
from .kernels.row_products import row_products_module
from .object_code import compile_object, compiled_library, compiled_object
from .program.trace import TRACE_ATTRIBUTE, Trace
from .source_digest import PROGRAM, source_digest
from .target import NativeOptions, NativeTarget

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def native_program(
    model: Model,
    options: NativeOptions | Mapping[str, object] | None = None,
    *,
    example_inputs: Any = None,
    threads: int = 1,
    cache_folder: Path | None = None,
) -> NativeProgram:
    """A program compiled for this process; what was compiled before comes from the cache.

    Args:
        model: IR with a public `@forward`, which stays as it is; or what it is imported from, see
            `models.import_model`.
        options: of the target `native`: those that do not concern files.
        example_inputs: of a module of PyTorch.
        threads: most threads that a call uses.
        cache_folder: where compiled programs are kept; the user's cache folder when not given.

    Raises:
        OptionError: a wrong option, or one that is about files or other processors.
        PassError, UnsupportedError: the program cannot be compiled.
        BackendError: llvmlite is missing.
    """
    if not isinstance(options, NativeOptions):
        options = parse_options(NativeOptions, NativeTarget.name, options or {})
    module = import_model(model, example_inputs=example_inputs)
    content = program_content(module, options, cache_folder=cache_folder, together=threads > 1)
    return load_program(content, threads=threads, held=store_of(module).read)


def program_content(
    module: ModuleOp,
    options: NativeOptions,
    *,
    cache_folder: Path | None = None,
    together: bool = False,
) -> bytes:
    """A program compiled for this process, as `load_program` takes it; see `native_program`.

    `together` says whether threads shall share out one sample.
    """
    if not options.machine().host:
        raise OptionError("a program runs on this processor: leave cpu and triple away")
    chosen = replace(options, recipe=options.kernels().name, form=None, name=None)
    parts = [source_digest(*PROGRAM).hex(), version("xdsl"), source_hash(module), str(chosen)]
    parts += ["together"] if together else []
    return kept(
        " ".join(parts),
        lambda: _assembled(_lowered(module, options, "together=true" if together else "")),
        cache=None if cache_folder is None else ObjectCache(cache_folder),
    )


def traced_program(
    module: ModuleOp, options: NativeOptions, *free: int
) -> tuple[NativeProgram, Trace]:
    """A program that times its steps, and what they do for free sizes; compiled at each call.

    Raises:
        OptionError: no steps can be timed on this machine; or see `native_program`.
        PassError, UnsupportedError, BackendError: see `native_program`.
    """
    work = _lowered(module, options, f"trace={','.join(map(str, free))}")
    note = work.attributes[TRACE_ATTRIBUTE]
    assert isinstance(note, StringAttr)
    program = load_program(_assembled(work), held=store_of(module).read)
    return program, Trace.from_json(note.data)


def _lowered(module: ModuleOp, options: NativeOptions, more: str = "") -> ModuleOp:
    """A program in the `llvm` dialect; the pass to memory may have one option more."""
    target, work = NativeTarget(), module.clone()
    target.prepare(work, options)
    stages = target.stages(options)
    if more:
        stages = [
            replace(stage, pipeline=stage.pipeline.replace("{", f"{{{more} ", 1))
            if stage.name == "memory"
            else stage
            for stage in stages
        ]
    # LLVM checks what becomes of it; checks after each pass would take a third of the time.
    run_stages(work, stages, verify=False)
    check_lowered(work)
    return work


def _assembled(work: ModuleOp) -> bytes:
    interface = noted_interface(work)
    tensors = len(interface.inputs) + len(interface.outputs)
    work.body.block.add_op(arrays_entry(tensors, len(interface.names)))
    names = [FORWARD, WORKSPACE_BYTES, ARRAYS]
    names += [PHASE] if interface.phases else []
    names += [KEPT] if interface.kept else []
    code = compile_object(work, names)
    return program_bytes(interface, code, program_constants(work))


def kernel_provider(recipe: str | None = None) -> Provider:
    """What gives `TernaryLinear` its kernels; each is loaded once in a process.

    Args:
        recipe: name of a SIMD recipe that this processor can run; the best one when not given.

    Raises:
        OptionError: an unknown recipe, or one that this processor cannot run.
        BackendError: llvmlite is missing.
    """
    return _provider(recipe_for(recipe, host_features()))


def row_products(recipe: Recipe, kind: RowKind) -> bytes:
    """The object with the code of `RowProduct`; it is kept.

    Raises:
        BackendError: llvmlite is missing.
    """
    key = f"{fingerprint(recipe, 'rows', KIND_NAMED['f32'])} {kind}"
    return compiled_object(key, lambda: row_products_module(recipe, kind))


def attention(recipe: Recipe, heads: Heads) -> bytes:
    """The object with the code of `Attention`; it is kept.

    Raises:
        BackendError: llvmlite is missing.
    """
    key = f"{fingerprint(recipe, 'rows', KIND_NAMED['f32'])} attention {heads}"
    return compiled_object(key, lambda: attention_module(recipe, heads))


@cache
def _provider(recipe: Recipe) -> Provider:
    @cache
    def provide(layout: Layout, kind: Kind) -> Library:
        def build() -> ModuleOp:
            module = kernel_module(recipe, layout, kind)
            module.body.block.add_ops(call_functions())
            return module

        key = fingerprint(recipe, layout, kind)
        return compiled_library(key, build)

    return provide


def native_linear(
    weights: NDArray[np.generic] | PackedWeights,
    *,
    scale: NDArray[np.float32] | float | None = None,
    bias: NDArray[np.float32] | None = None,
    precision: Precision = "dynamic-int8",
    threads: int = 1,
    recipe: str | None = None,
    layout: Layout | Literal["auto"] = "auto",
) -> TernaryLinear:
    """A callable ternary layer for this processor.

    Args:
        weights: [outs, ins] with values -1, 0, 1, or already packed.
        scale: a number, or one for each output, for float activations.
        bias: one for each output, for float activations.
        precision: what is done with float activations, see `TernaryLinear`.
        threads: most threads that a call uses.
        recipe: name of a SIMD recipe; the best one when not given.
        layout: of the weights, see `TernaryLinear`.

    Raises:
        ParameterError: weights that are no matrix of trits.
        OptionError: a wrong option.
        BackendError: llvmlite is missing.
    """
    packed = weights if isinstance(weights, PackedWeights) else PackedWeights.of(weights)
    return TernaryLinear(
        packed,
        kernel_provider(recipe),
        scale=scale,
        bias=bias,
        precision=precision,
        threads=threads,
        layout=layout,
    )
