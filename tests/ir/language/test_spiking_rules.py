"""What the spiking functions refuse, with a caret under the argument at fault."""

from __future__ import annotations

import pytest

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language import TritonParser, TypeChecker

TRAIN = "s: SpikeTensor[T, N, 6]"


@pytest.mark.parametrize(
    ("body", "signature", "message", "caret"),
    [
        ("encode(x, 0)", "x: Tensor[N]", "'timesteps' must be at least 1, found 0", "0"),
        ("encode(x, 2000000)", "x: Tensor[N]", "'timesteps' must be at most 1048576", "2000000"),
        ("encode(x, N)", "x: Tensor[N]", "'timesteps' must be known while compiling", "N"),
        ("encode(x, 4, seed=-1)", "x: Tensor[N]", "'seed' must be from 0", "-1"),
        ('encode(x, 40, "phase")', "x: Tensor[N]", "at most 31 steps", "40"),
        ("encode(x, 4, period=2)", "x: Tensor[N]", "needs the scheme", "2"),
        ("encode(x, 4, threshold=0.5)", "x: Tensor[N]", "needs the scheme", "0.5"),
        ("encode(x, 4, dt=0.0)", "x: Tensor[N]", "'dt' must be positive", "0.0"),
        ('decode(s, readout="mean")', TRAIN, "'readout' needs the scheme", '"mean"'),
        ("decode(x)", "x: Tensor[T, N]", "needs a SpikeTensor", "x"),
        ("lif(s, tau=0.0)", TRAIN, "'tau' must be positive", "0.0"),
        ('lif(s, tau=0.5, decay="euler")', TRAIN, "at least 1 step", "0.5"),
        ("lif(s, v_reset=1.0)", TRAIN, "'v_reset' needs reset=", "1.0"),
        ("lif(s, tau=w)", TRAIN + ", w: Tensor[5]", "shapes do not broadcast", None),
        ("lif(s, tau=w)", TRAIN + ", w: Tensor[2, 1, 6]", "does not fit a step", "w"),
        ("adaptive_lif(s, kappa=-1.0)", TRAIN, "'kappa' must not be negative", "-1.0"),
        ("delay(s, -1)", TRAIN, "'steps' must be at least 0", "-1"),
        ("s @ w", "s: SpikeTensor[T], w: Tensor[T]", "an axis besides time", None),
        (
            "temporal_batch_norm(s, w, w, axis=0)",
            TRAIN + ", w: Tensor[6]",
            "another axis than time",
            "0",
        ),
        (
            "spiking_attention(s, s, s, heads=4)",
            "s: SpikeTensor[T, N, 5, 6]",
            "do not split into 4 heads",
            "4",
        ),
        (
            "spiking_attention(s, s, s, tau=0.5)",
            "s: SpikeTensor[T, N, 5, 6]",
            "'tau' must be at least 1 step",
            "0.5",
        ),
        (
            'spiking_attention(s, k, k, kind="sdsa")',
            "s: SpikeTensor[T, N, 5, 6], k: SpikeTensor[T, N, 4, 6]",
            "equally many tokens",
            None,
        ),
        (
            "spiking_attention(s, k, v)",
            "s: SpikeTensor[T, N, 5, 6], k: SpikeTensor[T, N, 5, 6], v: SpikeTensor[T, N, 5, 4]",
            "matching tokens and channels",
            None,
        ),
    ],
)
def test_refusals_point_at_the_argument(
    body: str, signature: str, message: str, caret: str | None
) -> None:
    with pytest.raises(CompilationError) as caught:
        source = f"layer L {{\nfn forward({signature}) {{ return {body} }}\n}}"
        TypeChecker().check(TritonParser().parse(source)).elaborate()
    text = str(caught.value)
    assert message in text
    line, marks = next(
        (a.partition("|")[2], b.partition("|")[2])
        for a, b in zip(text.splitlines(), text.splitlines()[1:], strict=False)
        if "^" in b
    )
    marked = "".join(c for c, m in zip(line, marks.ljust(len(line)), strict=False) if m == "^")
    assert marked == caret if caret is not None else marked in line
