"""A SpikeFormer from training to ONNX Runtime, on real digits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def example() -> Any:
    """The module `spiking_digits` of the examples, imported as scripts do."""
    pytest.importorskip("sklearn", reason="pip install scikit-learn")
    pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    sys.path.insert(0, str(EXAMPLES))
    try:
        import spiking_digits  # pyright: ignore

        yield spiking_digits
    finally:
        sys.path.remove(str(EXAMPLES))


def test_every_engine_gives_the_same_classes(example: Any, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train, test = example.splits()
    assert train[0].shape == (1437, 1, 8, 8) and test[0].shape == (360, 1, 8, 8)
    trainer = example.spikeformer(0, epochs=1)
    trainer.fit((train[0][:320], train[1][:320]))
    torch.set_num_threads(threads)
    module = example.compile_network(trainer.module, test[0])
    assert {"spike.attention", "spike.lif"} <= {op.name for op in module.walk()}
    result = example.compare(trainer.module, module, test[0][:100], tmp_path / "former.onnx")
    # A current that is summed in another order can fall on the other side of a threshold.
    assert result.agreement >= 0.98
    expected = "spike.attention, 2 times: NIR has no node for attention"
    assert example.refusal_of_nir(module).startswith(expected)


@pytest.mark.slow
def test_spikes_are_within_a_point_of_floats(example: Any) -> None:
    train, test = example.splits()
    found: list[float] = []
    for make in (example.spikeformer, example.twin):
        torch.manual_seed(0)
        trainer = make(0)
        trainer.fit(train)
        found.append(trainer.evaluate(test)["accuracy"])
    assert found[0] > found[1] - 0.01 and found[0] > 0.96
