"""Modules that are one `spike.network`, as targets for neuromorphic machines take them.

Not here: how programs become networks (`passes.network`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ..dialects.spike import (
    AttentionOp,
    DecodeOp,
    EncodeOp,
    InputOp,
    NetworkOp,
    ProbeOp,
    SimulateOp,
)
from ..passes.analysis.compile_time import is_literal
from .emission import UnsupportedOps

_AROUND = (func.FuncOp, func.ReturnOp, SimulateOp)
"""What may stand around a network beside numbers: that which runs it."""

_BUILD = "build-network{expose=true}"
_CONVERT = (
    "free-batch,fold-constants,fuse-linear,fold-constants,"
    f'convert-ann-to-snn{{data="samples.npy" timesteps=16 pools=before}},{_BUILD}'
)


@dataclass(frozen=True)
class NetworkPorts:
    """How the function of a module runs its network.

    Attributes:
        arguments: the inputs of the network, in the order of the function's arguments.
        results: the probes, in the order of its results.
        hint: how to make a network of what stands beside one; empty where there is one.
        steps: for which the inputs are encoded that are there at each step; `None` without such.
        held: these inputs.
        means: the probes of which the function gives the mean over its steps.
    """

    arguments: tuple[str, ...]
    results: tuple[str, ...]
    hint: str
    steps: int | None = None
    held: tuple[str, ...] = ()
    means: tuple[str, ...] = ()


def network_ports(
    module: ModuleOp, unsupported: UnsupportedOps, what: str, lacks: str, *, around: bool = False
) -> NetworkPorts:
    """How the function of a module runs its network; notes all ops beside the two.

    Args:
        module: with a `spike.network`.
        unsupported: takes what stands beside it.
        what: in words, what holds a network and nothing beside it.
        lacks: the beginning of what is said of attention.
        around: whether inputs may be arguments that are encoded directly, and results means.
    """
    beside = f"{what} holds a spike.network and nothing beside it"
    attention = f"{lacks} for attention, nor for the product of two trains"
    for op in module.body.block.walk():
        if around and (_is_held(op) or _is_mean(op)):
            continue
        if not (is_literal(op) or isinstance(op, _AROUND)) and not _within_network(op):
            unsupported.add(op, attention if isinstance(op, AttentionOp) else beside)
    for op in module.walk():
        function = op.parent_op()
        if isinstance(op, SimulateOp) and isinstance(function, func.FuncOp):
            arguments, results = _names(op.find_network())
            given = dict(zip(op.inputs, arguments, strict=True))
            held: dict[SSAValue, tuple[str, int]] = {}
            for value, name in given.items():
                if around and isinstance(value.owner, EncodeOp) and _is_held(value.owner):
                    assert value.owner.timesteps is not None
                    held[value.owner.operand] = name, value.owner.timesteps.value.data
            given |= {value: name for value, (name, _) in held.items()}
            taken: dict[SSAValue, str] = dict(zip(op.outputs, results, strict=True))
            last = function.body.blocks[-1].last_op
            returned = list(last.operands) if last is not None else []
            means: list[str] = []
            for index, value in enumerate(returned):
                owner = value.owner
                if around and isinstance(owner, DecodeOp) and _is_mean(owner):
                    returned[index] = owner.operand
                    means += [taken[owner.operand]] if owner.operand in taken else []
            return NetworkPorts(
                tuple(given[value] for value in function.args if value in given),
                tuple(taken[value] for value in returned if value in taken),
                _hint(module),
                max((steps for _, steps in held.values()), default=None),
                tuple(name for name, _ in held.values()),
                tuple(means),
            )
    networks = [op for op in module.walk() if isinstance(op, NetworkOp)]
    return NetworkPorts(*(_names(networks[0]) if networks else ((), ())), _hint(module))


def _is_held(op: Operation) -> bool:
    return (
        isinstance(op, EncodeOp)
        and op.scheme.data == "direct"
        and isinstance(op.operand, BlockArgument)
    )


def _is_mean(op: Operation) -> bool:
    return (
        isinstance(op, DecodeOp)
        and op.readout is not None
        and op.readout.data == "mean"
        and isinstance(op.operand.owner, SimulateOp)
    )


def _names(network: NetworkOp) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The inputs of a network, and its probes."""
    parts = list(network.body.block.ops)
    return (
        tuple(part.sym_name.data for part in parts if isinstance(part, InputOp)),
        tuple(part.sym_name.data for part in parts if isinstance(part, ProbeOp)),
    )


def _hint(module: ModuleOp) -> str:
    names = {op.name for op in module.walk()}
    if NetworkOp.name in names:
        return ""
    spiking = any(name.startswith("spike.") for name in names)
    kind, passes = ("spiking", _BUILD) if spiking else ("float", _CONVERT)
    return (
        f"a {kind} program becomes a network by the passes '{passes}' (-p of this command or of "
        "triton compile); see docs/targets/nir.md"
    )


def _within_network(op: Operation) -> bool:
    return isinstance(op, NetworkOp) or isinstance(op.parent_op(), NetworkOp)
