"""The stage that computes: a handshake around a pipeline; a beat goes in every cycle.

Not here: the circuit (`pipeline`), and pipelines that never wait (`credits`).
"""

from __future__ import annotations

from ..pipeline import Core
from .body import StageBody
from .stage import Layout, Stage


def arithmetic_stage(name: str, core: Core, input: Layout) -> Stage:
    """The stage around a pipeline of one input and one output, all registers of which wait.

    Args:
        core: the pipeline, from `x` to `y`.
    """
    body = StageBody(input)
    advance, valid = body.out_ready[0], body.in_valid[0]
    if core.latency:
        chain = [body.state(1, f"valid_{step}", 0) for step in range(1, core.latency + 1)]
        advance = body.any_of(advance, body.inverse(chain[-1]), name="advance")
        for register, before in zip(chain, [valid, *chain], strict=False):
            body.drive(register, before, advance)
        valid = chain[-1]
    given = {"clock": body.clock, "enable": advance, "x": body.in_data[0]}
    y = body.instance(core.module, "core", given)["y"]
    symbol = core.module.sym_name.data
    comment = f"Handshake around {symbol}: a beat every cycle, its result {core.latency} later"
    return body.stage(name, comment, core.outputs["y"], (advance, y, valid), [core.module])
