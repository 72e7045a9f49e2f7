"""`ArchitectureValidator`: what a conversion will make of a program, and whether it kept its shape.

The table has a row for each op before a conversion, and one for each comparison after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...ir.errors import UnsupportedError
from ...ir.interpreter import entry_function
from ...ir.locations import location_text
from ..analysis.compile_time import compile_time_values
from ..analysis.layers import is_layer, weight_of
from .attention import attentions
from .channels import is_synapse
from .converter import LayerConverter
from .neurons import activations, is_activation


@dataclass(frozen=True)
class Finding:
    """One row of a validation.

    Attributes:
        subject: the op or property looked at.
        place: where it stands.
        result: what becomes of it, or what was found.
        ok: whether that is as it should be.
    """

    subject: str
    place: str
    result: str
    ok: bool


class ArchitectureValidator:
    """Checks that a program can be converted, and that a converted one kept its structure.

    Args:
        converter: the rules to check against; the usual ones by default.
    """

    def __init__(self, converter: LayerConverter | None = None) -> None:
        self.converter = converter or LayerConverter()

    def check(self, program: ModuleOp, *, function: str = "forward") -> list[Finding]:
        """What becomes of each op of a float program; the program is left alone.

        Raises:
            PassError: the function has several blocks, or a noted threshold is malformed.
        """
        refused: dict[tuple[str, str], str] = {}
        try:
            self.converter.convert(program.clone(), 1, threshold=1.0, function=function)
        except UnsupportedError as error:
            refused = {(name, place): reason for name, place, reason in error.problems}
        block = entry_function(program, function).body.block
        ops = list(block.ops)[:-1]
        known = compile_time_values(ops)
        changing: set[Operation] = set()
        attending = {a.op: a for a in attentions(ops)}
        inner = {op for a in attending.values() for op in a.inner}
        findings: list[Finding] = []
        for op in ops:
            if all(result in known for result in op.results):
                continue
            moves = any(isinstance(v.owner, Operation) and v.owner in changing for v in op.operands)
            place = location_text(op)
            reason = refused.get((op.name, place))
            if moves or is_activation(op) or op in attending:
                changing.add(op)
            if reason is not None:
                findings.append(Finding(op.name, place, reason, ok=False))
            elif op in attending or op in inner:
                findings.append(Finding(op.name, place, "spiking attention (approximate)", ok=True))
            elif is_activation(op):
                findings.append(Finding(op.name, place, "integrate-and-fire neurons", ok=True))
            elif op in changing and is_layer(op):
                findings.append(Finding(op.name, place, "synapse", ok=True))
            elif op in changing:
                findings.append(Finding(op.name, place, "at each step, or on the mean", ok=True))
            else:
                findings.append(Finding(op.name, place, "once, before the first step", ok=True))
        return findings

    def compare(
        self, program: ModuleOp, converted: ModuleOp, *, function: str = "forward"
    ) -> list[Finding]:
        """Whether a converted program has the interface, layers and weights of the float one."""
        before, after = entry_function(program, function), entry_function(converted, function)
        rows = [
            (
                "inputs",
                list(map(str, before.function_type.inputs)),
                list(map(str, after.function_type.inputs)),
            ),
            (
                "results",
                list(map(str, before.function_type.outputs)),
                list(map(str, after.function_type.outputs)),
            ),
            (
                "populations of neurons",
                _populations(program, function),
                _fired(after.body.block.ops),
            ),
            ("weights", _weights(before.body.block.ops), _weights(after.body.block.ops)),
        ]
        return [
            Finding(
                what,
                function,
                f"{_shown(had)} as before" if had == has else f"{_shown(had)}, now {_shown(has)}",
                ok=had == has,
            )
            for what, had, has in rows
        ]

    @staticmethod
    def table(findings: Sequence[Finding]) -> str:
        """Findings as lines of text, problems marked."""
        cells = [(f.subject, f.place, f.result, "" if f.ok else "problem") for f in findings]
        widths = [max((len(row[i]) for row in cells), default=0) for i in range(4)]
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        )


def _shown(problems: Sequence[str]) -> str:
    return ", ".join(problems) or "none"


def _populations(program: ModuleOp, function: str) -> list[str]:
    block = entry_function(program, function).body.block
    known = compile_time_values(block.ops)
    live = [
        op
        for op in activations(entry_function(program, function))
        if not all(value in known for value in op.operands)
    ]
    return [str(len(live) + 3 * len(attentions(block.ops)))]


def _fired(ops: Iterable[Operation]) -> list[str]:
    # Several neurons that say a value share its current.
    first = {op.input for op in ops if isinstance(op, spike.IntegrateFireOp) and not _goes_on(op)}
    return [str(len(first))]


def _goes_on(op: spike.IntegrateFireOp) -> bool:
    """Whether it is what signed neurons say after their first step, or take back."""
    return isinstance(op.input.owner, tensor.SubOp | tensor.MinimumOp) and (
        tensor_type(op.input).get_shape()[0] == 1
    )


def _weights(ops: Iterable[Operation]) -> list[str]:
    """The shapes of the constant weights of layers and synapses, in program order."""
    layers = list(ops)
    known = compile_time_values(layers)
    problems: list[str] = []
    for op in layers:
        if is_layer(op):
            weight = weight_of(op)
        elif is_synapse(op):
            weight = op.operands[1]
        else:
            continue
        if weight in known:
            problems.append("x".join(map(str, tensor_type(weight).get_shape())))
    return problems
