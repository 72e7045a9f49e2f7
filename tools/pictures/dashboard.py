"""One page of how a network trains, serves and what it takes: from recorded numbers, no server.

Not here: the live dashboards, which Grafana draws (`examples/operations`).
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import InputError, refuse
from ...ir.extras import needed
from ...ir.safe_write import PendingFiles
from ...lowering.placement.energy import EnergyMetrics
from .energy import energy as energy_picture
from .figure import panels, picture_bytes, plain_style

if TYPE_CHECKING:
    from ...runtime.training.tracking import History

_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; text-align: left; }
td:last-child { text-align: right; } tr:nth-child(even) { background: #f4f4f4; }
img { max-width: 100%; }"""


def dashboard(
    path: str | Path,
    *,
    title: str = "Performance",
    training: History | None = None,
    figures: str | None = None,
    energy: Sequence[EnergyMetrics] = (),
) -> Path:
    """Write a page of what is given to the file `path`, which needs nothing else; its path.

    Args:
        path, title: of the page.
        training: what `Trainer.fit` gave.
        figures: what a server says at `/metrics`, or `training.prom` holds.
        energy: of a sample, on each machine.

    Raises:
        OptionError: nothing is given, or figures that are none.
        BackendError: matplotlib or prometheus-client is missing.
    """
    sections: dict[str, str] = {}
    if training is not None and training.records:
        sections["Training"] = _pictured(_curves(training.records))
    if figures is not None:
        sections["Serving"] = _served(figures)
    if energy:
        sections["Energy of a sample"] = _pictured(energy_picture(energy))
    refuse(not sections, "a dashboard needs training, figures or energy")
    body = "".join(f"<h2>{name}</h2>{content}" for name, content in sections.items())
    name = html.escape(title)
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{name}</h1>{body}</body></html>\n"
    )
    with PendingFiles() as files:
        files.add(Path(path), text.encode())
    return Path(path)


def _curves(records: Sequence[Mapping[str, float]]) -> Any:
    """A panel for each number, with that of the validation."""
    names = [name for name in records[-1] if name != "epoch" and not name.startswith("val_")]
    figure, axes = panels(len(names), 1.6)
    with plain_style():
        for axis, name in zip(axes, names, strict=True):
            for key, label in ((name, "training"), (f"val_{name}", "validation")):
                points = [(each["epoch"], each[key]) for each in records if key in each]
                if points:
                    axis.plot(*zip(*points, strict=True), marker=".", label=label)
            axis.set_title(name, loc="left")
            axis.legend(loc="upper right", frameon=False)
        axes[-1].set_xlabel("epoch")
    return figure


def _served(text: str) -> str:
    """A table of numbers, and a picture of each distribution."""
    parser = needed("prometheus_client.parser", "prometheus-client", "serve")
    try:
        families: list[Any] = [*parser.text_string_to_metric_families(text)]
    except ValueError as error:
        raise InputError(f"no figures of Prometheus: {error}") from None
    rows, pictures = "", ""
    for family in families:
        if family.type == "histogram" and family.samples:
            pictures += _pictured(_distribution(family))
            continue
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                cells = (family.documentation, _labels(sample), f"{sample.value:.6g}")
                rows += f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
    return f"<table>{rows}</table>{pictures}"


def _labels(sample: Any) -> str:
    """What tells a number from others of its name, but for the range that it counts."""
    return ", ".join(f"{key} {sample.labels[key]}" for key in sorted(sample.labels.keys() - {"le"}))


def _distribution(family: Any) -> Any:
    """How many fell into each range, for each set of labels."""
    counts: dict[str, list[tuple[float, float]]] = {}
    for sample in family.samples:
        if sample.name.endswith("_bucket"):
            entry = (float(sample.labels["le"]), sample.value)
            counts.setdefault(_labels(sample), []).append(entry)
    figure, axes = panels(len(counts), 1.6)
    with plain_style():
        for axis, (label, reached) in zip(axes, sorted(counts.items()), strict=True):
            ends, totals = zip(*sorted(reached), strict=True)
            numbers = [b - a for a, b in pairwise((0.0, *totals))]
            axis.bar([f"{end:g}" for end in ends], numbers)
            axis.set_title(f"{family.documentation}: {label}", loc="left")
            axis.tick_params(axis="x", labelrotation=45)
    return figure


def _pictured(figure: Any) -> str:
    data = base64.b64encode(picture_bytes(figure, ".svg")).decode()
    return f'<p><img alt="" src="data:image/svg+xml;base64,{data}"></p>'
