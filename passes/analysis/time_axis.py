"""Which arguments of a program have time on their first axis. Not here: how long that is."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import spike


def has_time_first(argument: SSAValue) -> bool:
    """Whether a value is a train, or goes to neurons or synapses of spikes as one does."""
    if spike.is_train(argument):
        return True
    for use in argument.uses:
        op = use.operation
        if isinstance(op, spike.EncodeOp):
            if op.scheme.data == "delta":
                return True
        elif isinstance(op, spike.SimulateOp) or (
            use.index == 0 and op.dialect_name() == spike.Spike.name
        ):
            return True
    return False
