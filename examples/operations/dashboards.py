"""Writes the dashboards of `grafana/`: figures of servers, and of training, as Prometheus has them.

    python examples/operations/dashboards.py

It needs `pip install '.[operations]'`; Grafana reads the files by "Import", or from a provisioned
folder. The source of data is asked for there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef

SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")

SERVING = (
    (
        "Models that answer",
        "short",
        [("sum by (model, target) (triton_ready)", "{{model}}, {{target}}")],
    ),
    (
        "Requests a second",
        "reqps",
        [("sum by (model, status) (rate(triton_requests_total[1m]))", "{{model}} {{status}}")],
    ),
    (
        "Time of an answer",
        "s",
        [
            (
                f"histogram_quantile({part}, "
                "sum by (model, le) (rate(triton_request_seconds_bucket[1m])))",
                f"{{{{model}}}}, {part:.0%}",
            )
            for part in (0.5, 0.99)
        ],
    ),
    ("Requests that wait", "short", [("triton_waiting_requests", "{{model}}, {{instance}}")]),
    (
        "Samples that go through at once",
        "short",
        [
            (
                "sum by (model) (rate(triton_batch_samples_sum[1m])) / "
                "sum by (model) (rate(triton_batch_samples_count[1m]))",
                "{{model}}",
            )
        ],
    ),
    (
        "Targets in whose place another answered",
        "short",
        [("increase(triton_target_failures_total[5m])", "{{model}}, {{target}}, {{instance}}")],
    ),
    (
        "Starts in the last hour",
        "short",
        [('changes(process_start_time_seconds{job="triton-serve"}[1h])', "{{instance}}")],
    ),
    (
        "Memory",
        "bytes",
        [('process_resident_memory_bytes{job="triton-serve"}', "{{instance}}")],
    ),
)
"""Title, unit, and queries with the names of their lines."""

TRAINING = (
    ("Runs that go on", "short", [("triton_training_running", "{{instance}}")]),
    ("Loss", "short", [('triton_training{name=~"(val_)?loss"}', "{{name}}")]),
    ("Right answers", "percentunit", [('triton_training{name=~"(val_)?accuracy"}', "{{name}}")]),
    ("Learning rate", "short", [('triton_training{name="learning_rate"}', "{{name}}")]),
    ("Privacy that is spent, ε", "short", [('triton_training{name="epsilon"}', "{{name}}")]),
    ("Steps a second", "short", [("deriv(triton_training_steps[10m])", "{{instance}}")]),
    ("Since the last epoch", "s", [("time() - triton_training_time_seconds", "{{instance}}")]),
)

Panels = Sequence[tuple[str, str, Sequence[tuple[str, str]]]]


def written(title: str, uid: str, panels: Panels) -> str:
    """A dashboard as JSON: its first panel a number, the others over time."""
    builder: Any = dashboard.Dashboard(title).uid(uid).refresh("10s").time("now-1h", "now")
    builder.with_variable(
        dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus")
    )
    for index, (name, unit, queries) in enumerate(panels):
        panel: Any = stat.Panel() if index == 0 else timeseries.Panel()
        panel.title(name).unit(unit).datasource(SOURCE).span(12).height(7)
        for letter, (query, legend) in zip("AB", queries, strict=False):
            target: Any = prometheus.Dataquery().expr(query).legend_format(legend).ref_id(letter)
            panel.with_target(target)
        builder.with_panel(panel)
    return JSONEncoder(sort_keys=True, indent=2).encode(builder.build()) + "\n"


def dashboards() -> dict[str, str]:
    """The files by name."""
    return {
        "serving.json": written("Triton DSL: serving", "triton-serving", SERVING),
        "training.json": written("Triton DSL: training", "triton-training", TRAINING),
    }


if __name__ == "__main__":
    folder = Path(__file__).parent / "grafana"
    for file, text in dashboards().items():
        (folder / file).write_text(text, encoding="utf-8")
