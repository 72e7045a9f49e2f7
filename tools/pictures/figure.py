"""What all pictures share: how a figure is made, and written as the same bytes each time."""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import BackendError, OptionError
from ...ir.extras import install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.0
"""Inches."""

DPI = 120
"""Pixels an inch of .png files."""

SUFFIXES: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""The formats by suffix, each with the metadata that would differ between two runs."""


@contextmanager
def plain_style() -> Generator[None]:
    """matplotlib's own defaults, whatever the user's settings: the same bytes everywhere."""
    try:
        from matplotlib import style
    except ImportError:
        raise BackendError(f"pictures need matplotlib: {install('pictures')}") from None
    with style.context(["default", {"svg.hashsalt": "triton-dsl", "axes.spines.top": False,
                                    "axes.spines.right": False, "font.size": 9}]):  # fmt: skip
        yield


def panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels, one below the other, `height` inches each.

    Raises:
        BackendError: matplotlib is missing.
    """
    with plain_style():
        figure = _figure_class()(figsize=(WIDTH, 0.8 + height * count), layout="constrained")
        grid = figure.subplots(count, 1, sharex=True, squeeze=False)
    return figure, list(grid[:, 0])


@cache
def _figure_class() -> type[Figure]:
    """A figure that a notebook draws without a back end of matplotlib's for notebooks."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            return picture_bytes(self, ".png")

    return Picture


def count_upwards(axis: Axes) -> None:
    """Number the vertical axis in whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def check_suffix(path: Path) -> None:
    """Refuse a file whose format is unknown.

    Raises:
        OptionError: the suffix is not one of `SUFFIXES`.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"picture '{path}': expected a name in {', '.join(SUFFIXES)}")


def picture_bytes(figure: Figure, suffix: str) -> bytes:
    """The content of a file of `figure`; the same for the same figure.

    Args:
        figure: what a function of this package gave.
        suffix: `.png`, `.svg` or `.pdf`.
    """
    buffer = io.BytesIO()
    with plain_style():
        figure.savefig(
            buffer, format=suffix[1:].lower(), dpi=DPI, metadata=SUFFIXES[suffix.lower()]
        )
    return buffer.getvalue()
