"""`triton quantize`: a float program with integers and few bits, and what each layer costs."""

from __future__ import annotations

from dataclasses import asdict

from ...ir.errors import OptionError
from ...ir.safe_write import check_writable
from ...ir.samples import read_labels, read_samples
from ...lowering.models import import_model
from ...lowering.module_file import save_module
from ...lowering.post_training import quantize_program
from ..console import print_json, progress, show, table
from .options.conversions import Quantize


def quantize(options: Quantize) -> None:
    """Choose the bits of each layer, tell what came out and write it."""
    if options.output is not None:
        if options.output.suffix != ".mlir":
            raise OptionError(f"'{options.output}': a program of integers is IR; name it .mlir")
        check_writable(options.output)
    with progress() as bar:
        bar.add_task(f"Quantising {options.file}", total=None)
        done = quantize_program(
            import_model(options.file, weights=options.weights, layer=options.layer),
            read_samples(options.calibration),
            options.bits,
            labels=None if options.labels is None else read_labels(options.labels),
            drop=options.drop / 100,
            budget=options.budget,
            keep=options.keep or (),
            observer=options.observer,
            measure=options.measure,
        )
    if options.output is not None:
        save_module(done.module, options.output)
    before, after = done.stored()
    if options.json:
        names = ("before", "accuracy", "share", "divergence", "measured")
        facts = {name: getattr(done, name) for name in names}
        layers = [asdict(layer) for layer in done.layers]
        stored = {"float_bytes": before, "bytes": after}
        print_json({**facts, **stored, "labels": options.labels is not None, "layers": layers})
        return
    what = done.share
    lost = "error" if what == "R²" else "nats"
    judged = (f"{what} alone", f"{lost} alone", "rounded plainly")
    columns = ["layer", "op", "weights", "bits", *judged]
    rows = [
        (
            *(layer.key, layer.op, f"{layer.weights:,}", f"{layer.bits:g}"),
            *(f"{100 * layer.accuracy:.2f} %", f"{layer.divergence:.4g}"),
            f"{100 * layer.plain_accuracy:.2f} %, {layer.plain_divergence:.4g}",
        )
        for layer in done.layers
    ]
    show(table(f"{options.file} on {done.measured} samples", columns, rows))
    whole = [
        ("float", f"{before:,.0f}", f"{100 * done.before:.2f} %"),
        (options.bits, f"{after:,.0f}", f"{100 * done.accuracy:.2f} %"),
    ]
    show(table("The whole program", ["", "bytes of weights", what], whole))
