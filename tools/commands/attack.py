"""`triton attack`: how many right answers of a classifier hold against attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ... import training
from ...ir.errors import InputError, OptionError, refuse
from ...ir.extras import needed
from ...ir.samples import check_labels, read_labels, read_samples
from ...lowering.models import import_model
from ...lowering.options import parse_target_spec
from ...lowering.targets import compile_to_target
from ...lowering.to_pytorch.load import load_module
from ..console import print_json, progress, show, table
from ..inputs import bind_inputs
from .options.runs import Attack

_USUAL = "GN{std=0.1},FGSM{eps=0.1},PGD{eps=0.1 alpha=0.03 steps=7},Square{eps=0.1 n_queries=100}"


def attack(options: Attack) -> None:
    """Count right answers as they are and after each attack.

    Raises:
        OptionError: no such attack, inputs that are not from 0 to 1, or labels that do not fit.
        BackendError: PyTorch or torchattacks is missing.
        UnsupportedError: PyTorch cannot express the program.
    """
    torch = needed("torch", "PyTorch", "privacy")
    ways = _ways(options.attack or _USUAL.split(","))
    with progress() as bar:
        bar.add_task(f"Attacking {options.file}", total=None)
        program = import_model(options.file, weights=options.weights, layer=options.layer)
        inputs = bind_inputs(program, read_samples(options.inputs))
        labels = read_labels(options.labels)
        is_wrong = len(inputs) != 1 or not inputs[0].ndim
        refuse(is_wrong, "an attack needs one input [N, …]", InputError)
        check_labels(labels, len(inputs[0]))
        x = torch.from_numpy(inputs[0][: options.limit])
        y = torch.from_numpy(labels[: options.limit]).long()
        module = load_module(compile_to_target(program, "pytorch"))
        report = training.robustness(module, (x, y), ways, seed=options.seed)
    if options.json:
        print_json(asdict(report))
        return
    shares = [("as they are", report.clean), *report.attacked.items()]
    title = f"{options.file}: right answers of {report.rows}"
    show(table(title, ["attack", "right"], [(name, f"{share:.2%}") for name, share in shares]))


def _ways(specs: Sequence[str]) -> list[training.Attack]:
    """Attacks from `NAME{option=number …}`."""
    found: list[training.Attack] = []
    for spec in specs:
        said, numbers = parse_target_spec(spec), dict[str, Any]()
        for name, words in said.options.items():
            text = " ".join(word.text for word in words)
            try:
                number = float(text)
            except ValueError:
                raise OptionError(f"{said.name}: {name} is a number, not '{text}'") from None
            numbers[name.replace("-", "_")] = int(number) if text.isdecimal() else number
        found.append(training.Attack(said.name, numbers))
    return found
