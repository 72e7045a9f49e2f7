"""Recurrent nodes in the forms that exporters seldom write, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
WAYS = ("forward", "reverse", "bidirectional")


def cell(
    bench: Any, kind: str, direction: str, *, steps: int | str = 4, lengths: bool = False,
    peepholes: bool = False, **options: Any,
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """A node with all states given, for three sequences of five features."""
    random, ways, gates = np.random.default_rng(5), 1 + (direction == WAYS[2]), GATES[kind]

    def floats(*shape: int) -> np.ndarray[Any, Any]:
        return random.standard_normal(shape).astype(np.float32)

    inputs: dict[str, Any] = {"x": floats(4, 3, 5)}
    known = {"w": floats(ways, gates * 6, 5), "r": floats(ways, gates * 6, 6) / 2,
             "b": floats(ways, gates * 12), "h": floats(ways, 3, 6)}  # fmt: skip
    names, results = ["x", "w", "r", "b", "", "h"], ["y", "last"]
    if lengths:
        names[4], inputs["n"] = "n", np.array([4, 1, 3], np.int32)
    if kind == "LSTM":
        known["c"], results = floats(ways, 3, 6), [*results, "memory"]
        names.append("c")
        if peepholes:
            known["p"] = floats(ways, 18)
            names.append("p")
    node = helper.make_node(kind, names, results, hidden_size=6, direction=direction, **options)
    ports = {"x": (np.float32, (steps, 3, 5)), "n": (np.int32, (3,))}
    return bench.model([node], {k: ports[k] for k in inputs}, results, known, opset=14), inputs


@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("steps", [4, "T"])
def test_sequences_of_lengths_that_the_run_tells(
    bench: Any, kind: str, direction: str, steps: int | str
) -> None:
    bench.check(*cell(bench, kind, direction, steps=steps, lengths=True))


@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("coupled", [0, 1])
def test_memory_is_not_limited(bench: Any, direction: str, peepholes: bool, coupled: int) -> None:
    """The limit holds for what enters the gates, as in ONNX Runtime, and not for the memory."""
    made = cell(bench, "LSTM", direction, peepholes=peepholes, clip=0.7, input_forget=coupled)
    bench.check(*made)


def test_activations_with_numbers(bench: Any) -> None:
    for name, numbers in (("LeakyRelu", [0.2]), ("ThresholdedRelu", [0.3]), ("Elu", [0.7]),
                          ("Affine", [0.4, 0.1]), ("ScaledTanh", [0.9, 0.6])):  # fmt: skip
        lists: Any = {
            f"activation_{k}": [v] for k, v in zip(("alpha", "beta"), numbers, strict=False)
        }
        bench.check(*cell(bench, "RNN", "forward", activations=[name], **lists))
    bench.check(*cell(bench, "GRU", "forward", activations=["HardSigmoid", "Softsign"],
                      activation_alpha=[0.3], activation_beta=[0.4]))  # fmt: skip


def test_unknown_activations_are_refused(bench: Any) -> None:
    model, _ = cell(bench, "RNN", "forward", activations=["Exp"])
    with pytest.raises(UnsupportedError, match="its activation 'Exp' is not known"):
        from_onnx(model)
