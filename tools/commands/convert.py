"""`triton convert`: a float program as spiking ones, and what their accuracy costs."""

from __future__ import annotations

from ...ir.errors import OptionError
from ...ir.safe_write import PendingFiles, check_writable
from ...ir.samples import read_labels, read_samples
from ...lowering.conversion import prepared
from ...lowering.conversion_front import PRICES, Front
from ...lowering.models import import_model
from ...lowering.module_file import save_module
from ...lowering.options import parse_target_spec
from ...lowering.targets import get_target
from ...passes.convert_ann_to_snn import ConvertAnnToSnnPass
from ..console import note, print_json, progress, show, table
from ..pictures.figure import check_suffix, picture_bytes
from ..pictures.front import front as drawn
from .options.conversions import Convert


def convert(options: Convert) -> None:
    """Convert a program at several steps and prices, tell what came out and write the best."""
    counts, prices = _numbers(options.timesteps, "timesteps"), list(PRICES)
    if options.price is not None:
        prices = _numbers(options.price, "price")
    if options.output is not None and options.output.suffix != ".mlir":
        raise OptionError(f"'{options.output}': a spiking program is IR; name it .mlir")
    for path in (options.output, options.picture):
        if path is not None:
            check_writable(path)
    if options.picture is not None:
        check_suffix(options.picture)
    graded, reset = _held(options.target)
    with progress() as bar:
        bar.add_task(f"Converting {options.file}", total=None)
        program = import_model(options.file, weights=options.weights, layer=options.layer)
        module, samples = prepared(program, read_samples(options.samples))
        labels = None if options.labels is None else read_labels(options.labels)
        front = Front(module, samples, labels)
        for steps in counts:
            for signed in (False, True) if graded and steps > 1 else (False,):
                pools = "auto" if graded else "before"
                wanted = ConvertAnnToSnnPass(
                    timesteps=int(steps), signed=signed, pools=pools, reset=reset
                )
                front.explore(
                    wanted, prices=prices, budget=options.budget, accuracy=options.accuracy
                )
        chosen = front.chosen(budget=options.budget, accuracy=options.accuracy)
        best = front.best(chosen)
    if options.picture is not None:
        with PendingFiles() as pending:
            pending.add(options.picture, picture_bytes(drawn(front), options.picture.suffix))
    if options.output is not None:
        save_module(chosen.module, options.output)
    if options.json:
        told = [{**vars(c), "chosen": c is chosen} for c in best]
        rows = [{name: row[name] for name in row if name != "module"} for row in told]
        facts = {"measured": front.held.count, "share": front.held.share}
        print_json({"front": rows, **facts, "labels": labels is not None})
        return
    what = front.held.share
    columns = ["steps", "spikes are", what, "spikes", "additions", "price", "chosen"]
    cells: list[tuple[object, ...]] = []
    for c in best:
        code, numbers = (
            "signed" if c.signed else "plain",
            (f"{c.spikes:,.0f}", f"{c.additions:,.0f}"),
        )
        marked = "yes" if c is chosen else ""
        cells.append((c.timesteps, code, f"{100 * c.accuracy:.2f} %", *numbers, c.price, marked))
    show(table(f"{options.file} on {front.held.count} samples", columns, cells))


def _held(spec: str | None) -> tuple[bool, str]:
    """Whether numbers may go from neurons to neurons in what a target makes, and the reset there.

    What it does not hold is told.
    """
    if spec is None:
        return True, "subtract"
    target = get_target(parse_target_spec(spec).name)
    if not target.holds_graded:
        note("triton convert", f"target '{spec}' holds no numbers between neurons: "
             "plain spikes, and neurons before pools")  # fmt: skip
    if not target.subtracts:
        note("triton convert", f"neurons of target '{spec}' start again at a value: what is above "
             "the threshold is lost, which takes more steps or spikes")  # fmt: skip
    return target.holds_graded, "subtract" if target.subtracts else "to_value"


def _numbers(text: str, name: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"expected {name} as numbers with commas, got '{text}'") from None
    if name == "timesteps" and any(n != int(n) or n < 1 for n in numbers):
        raise OptionError(f"expected timesteps as whole numbers of at least 1, got '{text}'")
    return numbers
