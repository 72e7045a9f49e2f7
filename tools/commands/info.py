"""`triton info`: what a program is made of, before it is compiled."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ...dialects import ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import parameters
from ...ir.interpreter import entry_function
from ...ir.trits import packed_size
from ...ir.value_names import argument_names, result_names
from ...lowering.models import import_model
from ...lowering.stages import apply_passes
from ..console import print_json, show, table
from .options.programs import Info


def info(options: Info) -> None:
    """Show what a program is made of."""
    module = import_model(options.file, weights=options.weights, layer=options.layer, dt=options.dt)
    apply_passes(module, options.passes)
    facts = describe_module(module)
    if options.json:
        print_json(facts)
        return
    show(
        table(
            f"{options.file}: layer {facts['name']}",
            ["what", "name", "type"],
            [
                *(("input", v["name"], v["type"]) for v in facts["inputs"]),
                *(("output", v["name"], v["type"]) for v in facts["outputs"]),
            ],
        ),
        table(
            "parameters",
            ["name", "type", "elements", "stored bytes"],
            [(p["name"], p["type"], p["elements"], p["bytes"]) for p in facts["parameters"]],
        ),
        table(
            "sizes",
            ["what", "value"],
            [
                ("parameters", facts["total_parameters"]),
                ("ternary parameters", facts["ternary_parameters"]),
                ("bytes as float32", facts["float32_bytes"]),
                ("bytes stored", facts["stored_bytes"]),
                ("compression", f"{facts['compression']:.1f}x"),
            ],
        ),
        table("ops", ["op", "count"], sorted(facts["ops"].items())),
    )


def describe_module(module: ModuleOp) -> dict[str, Any]:
    """Inputs, outputs, parameters, sizes and op counts of a module."""
    function = entry_function(module, "forward")
    entries: list[dict[str, Any]] = []
    for op in parameters(module):
        type = tensor_type(op.result)
        shape = type.get_shape()
        trits = isinstance(op, ternary.ParameterOp)
        width = numpy_dtype(type.element_type).itemsize
        entries.append(
            {
                "name": op.key.data,
                "type": str(type),
                "ternary": trits,
                "elements": prod(shape),
                "bytes": packed_size(shape) if trits else prod(shape) * width,
            }
        )
    total = sum(e["elements"] for e in entries)
    stored = sum(e["bytes"] for e in entries)
    names = argument_names(function)
    types = function.function_type
    return {
        "name": module.sym_name.data if module.sym_name is not None else "module",
        "inputs": [
            {"name": n, "type": str(t)} for n, t in zip(names, types.inputs.data, strict=True)
        ],
        "outputs": [
            {"name": n, "type": str(t)}
            for n, t in zip(result_names(function), types.outputs.data, strict=True)
        ],
        "parameters": entries,
        "total_parameters": total,
        "ternary_parameters": sum(e["elements"] for e in entries if e["ternary"]),
        "float32_bytes": 4 * total,
        "stored_bytes": stored,
        "compression": 4 * total / stored if stored else 1.0,
        "ops": dict(Counter(op.name for op in function.body.walk() if op.name != "func.return")),
    }
