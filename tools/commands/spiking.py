"""What `triton run` says and draws of spiking programs: spikes, rates, additions, pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...dialects.spike import SimulateOp
from ...ir.errors import OptionError
from ...ir.safe_write import PendingFiles, check_writable
from ...ir.samples import read_labels
from ...lowering.stages import apply_passes
from ...runtime.spiking.activity import Activity
from ...runtime.spiking.anytime import answers
from ..console import table
from ..pictures.accuracy import accuracy, accuracy_by_step
from ..pictures.figure import check_suffix, picture_bytes
from ..pictures.raster import raster
from ..pictures.rates import rates
from ..pictures.traces import traces
from .options.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table
    from xdsl.dialects.builtin import ModuleOp


def pictures(options: Run) -> list[Path]:
    """The files of the pictures that a run is asked for."""
    asked = (options.raster, options.traces, options.rates, options.accuracy)
    return [path for path in asked if path is not None]


def check_pictures(options: Run) -> None:
    """Refuse, before anything runs, what cannot be drawn.

    Raises:
        OptionError: an engine that shows no spikes, labels without picture or the other way round,
            an unknown format, or one file for two things.
        OSError: a place that can never be written.
    """
    paths = pictures(options)
    if paths and options.engine != "interpreter":
        raise OptionError("pictures are drawn of runs in the interpreter; leave --engine out")
    if (options.accuracy is None) != (options.labels is None):
        raise OptionError("--accuracy and --labels go together")
    for path in paths:
        check_suffix(path)
    places = [os.path.realpath(path) for path in (*paths, options.output) if path is not None]
    if len(set(places)) != len(places):
        raise OptionError("each picture needs a file of its own, and so do the outputs")
    for path in paths:
        check_writable(path)


def lowered(module: ModuleOp) -> ModuleOp:
    """The module with networks as ops, so that their neurons can be seen."""
    if any(isinstance(op, SimulateOp) for op in module.walk()):
        module = module.clone()
        apply_passes(module, "lower-network")
    return module


def draw(
    options: Run,
    pending: PendingFiles,
    module: ModuleOp,
    inputs: Sequence[Any],
    activity: Activity,
) -> list[float] | None:
    """Add the pictures of a run to `pending`; the accuracy after each step, if labels were given.

    Raises:
        BackendError: matplotlib is missing.
        OptionError: nothing to draw, no such sample, or labels that do not fit.
        OSError: a file cannot be written.
    """
    for path, figure in _figures(options, activity):
        pending.add(path, picture_bytes(figure(), path.suffix))
    if options.accuracy is None or options.labels is None:
        return None
    labels = read_labels(options.labels)
    shares = accuracy_by_step(answers(module, inputs), labels)
    suffix = options.accuracy.suffix
    pending.add(options.accuracy, picture_bytes(accuracy(shares), suffix))
    return shares.tolist()


def _figures(options: Run, activity: Activity) -> list[tuple[Path, Callable[[], Figure]]]:
    sample, dt = options.sample, activity.dt
    wanted: list[tuple[Path | None, Callable[[], Figure]]] = [
        (options.raster, lambda: raster(activity, sample=sample, dt=dt)),
        (options.traces, lambda: traces(activity, sample=sample, dt=dt)),
        (options.rates, lambda: rates(activity)),
    ]
    return [(path, figure) for path, figure in wanted if path is not None]


def facts(activity: Activity) -> dict[str, Any]:
    """The run as JSON has it."""
    return {
        "layers": [
            {
                "name": layer.name,
                "op": layer.op,
                "place": layer.place,
                "steps": layer.steps,
                "neurons": layer.neurons,
                "spikes": layer.spikes if layer.fires else None,
                "rate": layer.rate if layer.fires else None,
            }
            for layer in activity.layers
        ],
        "synapses": [
            {
                "name": synapse.name,
                "op": synapse.op,
                "additions": synapse.additions,
                "dense": synapse.dense,
                "graded": synapse.is_graded,
            }
            for synapse in activity.synapses
        ],
        "spikes": activity.spikes,
        "additions": activity.additions,
        "dense": activity.dense,
    }


def tables(activity: Activity) -> list[Table]:
    """The run as tables: layers, and synapses where there are some."""
    layers = [
        (
            layer.name,
            layer.op,
            layer.steps,
            layer.neurons,
            layer.spikes if layer.fires else None,
            layer.rate if layer.fires else None,
        )
        for layer in activity.layers
    ]
    shown = [table("Spikes", ["layer", "op", "steps", "neurons", "spikes", "rate"], layers)]
    if activity.synapses:
        synapses = [
            (s.name, f"{s.op} of numbers" if s.is_graded else s.op, s.additions, s.dense)
            for s in activity.synapses
        ]
        total = ("all", "", activity.additions, activity.dense)
        columns = ["synapse", "op", "additions", "dense products"]
        shown.append(table("Additions", columns, [*synapses, total]))
    return shown
