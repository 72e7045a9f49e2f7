"""Simulators of spiking programs: what compiles them joined with what runs them.

`simulator(module)` takes any module with a public `@forward` on spike trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ..dialects import spike
from ..dialects.inference import tensor_type
from ..dialects.registry import triton_context
from ..dialects.shapes import DYNAMIC
from ..dialects.spike.types import dense_type, is_train, like
from ..ir.interpreter import entry_function
from ..ir.value_names import given_name
from ..passes.analysis.event_products import event_kind, sparse_key
from ..passes.analysis.time_axis import has_time_first
from ..passes.expose_state import state_count
from ..passes.infer_shapes import InferShapesPass
from ..runtime.native.program import NativeProgram
from ..runtime.spiking.simulator import Engine, Port, Signature, Simulator
from .models import Model, import_model
from .stages import Stage, run_stages
from .to_native.callables import native_program

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_EXPOSE = (Stage("expose", "lower-network,inline-spike-layers,canonicalize,cse,dce,expose-state"),)


def simulator(
    model: Model,
    engine: Engine = "auto",
    *,
    example_inputs: Any = None,
    threads: int = 1,
    cache_folder: Path | None = None,
) -> Simulator:
    """A simulator of a program for this processor.

    Args:
        model: IR with a public `@forward`, which stays as it is, or what it is imported from (see
            `models.import_model`); its trains are [steps, samples, …]. With both sizes free
            a call takes any number of either; a program that fixes its steps runs that many a call.
        engine: see `Simulator`.
        example_inputs: of a module of PyTorch.
        threads: most threads among which samples are shared.
        cache_folder: where compiled programs are kept; the user's cache folder when not given.

    Raises:
        OptionError: an unknown engine, or a wrong number of threads.
        PassError, UnsupportedError: the program cannot be compiled, when it is first run.
        BackendError: llvmlite is missing.
    """
    work = import_model(model, example_inputs=example_inputs).clone()
    run_stages(work, _EXPOSE)
    function = entry_function(work, "forward")
    signature = _signature(function)
    synapses = [op for op in function.walk() if isinstance(op, spike.LinearOp)]
    events, sparse = any(map(event_kind, synapses)), any(map(sparse_key, synapses))
    names = ["event"] if sparse else ["event", "dense"] if events else ["dense"]

    def make(name: str, steps: int | None) -> NativeProgram:
        fitting = _fitting(work, signature, steps) if signature.free else work
        return native_program(fitting, {"spikes": name}, cache_folder=cache_folder)

    programs = {name: partial(make, name) for name in names}
    return Simulator(signature, programs, engine=engine, threads=threads)


def _fitting(module: ModuleOp, signature: Signature, steps: int | None) -> ModuleOp:
    """A program for so many steps and any samples; `None`: for any steps and one sample."""
    work = module.clone()
    function = entry_function(work, "forward")
    ports = (*signature.inputs, *signature.states)
    for argument, port in zip(function.args, ports, strict=True):
        shape = list(dense_type(argument).get_shape())
        if steps is None and port.batch is not None:
            shape[port.batch] = 1
        if steps is not None and port.time is not None:
            shape[port.time] = steps
        Rewriter.replace_value_with_new_type(argument, like(argument, tuple(shape)))
    function.update_function_type()
    InferShapesPass().apply(triton_context(), work)
    return work


def _signature(function: FuncOp) -> Signature:
    count = state_count(function)
    end = function.body.block.last_op
    assert isinstance(end, ReturnOp)
    inputs, begun = _parted(list(function.args), count)
    outputs, _ = _parted(list(end.operands), count)
    steps = _steps(function)
    names = [given_name(function.arg_attrs, n) or f"x{n}" for n in range(len(function.args))]
    ins = tuple(_port(n, x, _timed(x)) for n, x in zip(names, inputs, strict=False))
    outs = tuple(
        _port(f"y{n}", x, is_train(x) or _is_trace(x, steps)) for n, x in enumerate(outputs)
    )
    states = tuple(
        Port(name, None, _first_free(x))
        for name, x in zip(names[len(inputs) :], begun, strict=True)
    )
    free = any(port.batch is not None for port in ins)
    apart = not any(_is_random(op) for op in function.walk())
    free = free and steps is None and apart
    return Signature(ins, outs, states, steps, free, _is_exact(function), apart)


def _is_random(op: Operation) -> bool:
    return isinstance(op, spike.EncodeOp) and op.scheme.data == "rate"


def _parted(values: list[SSAValue], last: int) -> tuple[list[SSAValue], list[SSAValue]]:
    cut = len(values) - last
    return values[:cut], values[cut:]


def _steps(function: FuncOp) -> int | None:
    """The number of steps where the program fixes it."""
    for op in function.walk():
        for value in (*op.operands, *op.results):
            if is_train(value) and not _is_state(value):
                steps = dense_type(value).get_shape()[0]
                return None if steps == DYNAMIC else steps
    return None


def _is_state(value: SSAValue) -> bool:
    """Whether a train is what an op begins with, or leaves: it has steps of its own."""
    begins = [value in _field(use.operation, "initial") for use in value.uses]
    ends = isinstance(value.owner, Operation) and value in _field(value.owner, "final")
    return ends or (bool(begins) and all(begins))


def _field(op: Operation, name: str) -> Sequence[SSAValue]:
    """The values of a field of an op, which may have none."""
    values: SSAValue | Sequence[SSAValue] | None = getattr(op, name, None)
    if values is None:
        return ()
    return (values,) if isinstance(values, SSAValue) else values


def _timed(argument: SSAValue) -> bool:
    """Whether an input has its steps on the first axis."""
    free = dense_type(argument).get_shape()[:2] == (DYNAMIC, DYNAMIC)
    return free or has_time_first(argument)


def _is_trace(value: SSAValue, steps: int | None) -> bool:
    """Whether an output has its steps on the first axis."""
    shape = dense_type(value).get_shape()
    if steps is None:
        return shape[:2] == (DYNAMIC, DYNAMIC) or (shape[:1] == (DYNAMIC,) and len(shape) > 2)
    return len(shape) > 1 and shape[0] == steps and not isinstance(value.owner, spike.DecodeOp)


def _port(name: str, value: SSAValue, timed: bool) -> Port:
    shape = dense_type(value).get_shape()
    place = 1 if timed else 0
    batch = place if len(shape) > place and shape[place] == DYNAMIC else None
    return Port(name, 0 if timed else None, batch)


def _first_free(state: SSAValue) -> int | None:
    shape = dense_type(state).get_shape()
    return shape.index(DYNAMIC) if DYNAMIC in shape else None


def _is_exact(function: FuncOp) -> bool:
    """Whether sums that engines compute in orders of their own are of integers."""
    return all(
        op.sum_element(tensor_type(op.weight)) == i32
        for op in function.walk()
        if isinstance(op, spike.LinearOp) and event_kind(op) is not None
    )
