"""Loops over the steps of a run: one Scan node, whose body makes one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from .graph import Port
from .onnx_writer import Writer

Step: TypeAlias = Callable[[list[str], list[str]], tuple[list[str], list[str]]]
"""`step(states, inputs)`: the states after a step, and what it gives, for one step of the inputs.

It writes into the body. States keep their element types."""


def scan(
    e: Writer, states: Sequence[str], inputs: Sequence[str], step: Step, ranks: Sequence[int]
) -> tuple[list[str], list[str]]:
    """Run `step` over the first axis of `inputs`: the last states, and the results of all steps.

    The body reads values around it too: what does not change stays outside. `ranks` are those of
    the states and of one step of the results, which ONNX Runtime wants to know.
    """
    body = e.graph.child()
    carried, slices = (
        [body.add_input(f"{e.hint}.{kind}", e.element(name)) for name in names]
        for kind, names in (("before", states), ("step", inputs))
    )
    with e.writing(body):
        after, results = step(carried, slices)
    elements = [e.element(name) for name in (*after, *results)]
    renamed: dict[str, str] = {}
    for name, element, rank in zip((*after, *results), elements, ranks, strict=True):
        port = Port(body.new_name(f"{e.hint}.after"), element, (None,) * rank)
        renamed[name] = body.add_output(renamed.get(name, name), port)
    outputs = e.graph.add_node(
        "Scan",
        [*states, *inputs],
        elements,
        [f"{e.hint}.state"] * len(after) + [f"{e.hint}.steps"] * len(results),
        {"num_scan_inputs": len(inputs)},
        body=body,
    )
    return outputs[: len(after)], outputs[len(after) :]
