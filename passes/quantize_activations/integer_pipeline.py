"""The passes that make a float network one of integers, from samples or as it was trained.

One place for what targets run when they are given samples, and for what errors advise.
"""

from __future__ import annotations


def integer_pipeline(
    data: str | None = None,
    *,
    bits: int = 8,
    weights: int = 8,
    observer: str = "minmax",
    samples: int | None = None,
    precision: str = "",
) -> str:
    """The pipeline, as text.

    Args:
        data: the file of samples; none for a network that was trained with quantisation.
        bits: of activations.
        weights: bits of float weights.
        observer: how ranges follow from samples, see `calibrate`.
        samples: how many of them; all by default.
        precision: other bits for layers by name, see `precision`.
    """
    limit = "" if samples is None else f" samples={samples}"
    ranges = "" if observer == "minmax" else f" observer={observer}"
    given = "" if data is None else f'data="{data}"{limit}{ranges} '
    layers = f' precision="{precision}"' if precision else ""
    quantize = f"quantize-activations{{{given}bits={bits} weights={weights} signed=false{layers}}}"
    return (
        "free-batch,expose-logits,drop-dynamic-rounding,fold-constants,fuse-linear,fold-constants,"
        f"canonicalize,recognize-quantizers,{quantize},requantize,cse,dce"
    )
