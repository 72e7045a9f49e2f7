"""The files of a program in C: header, code, an example, a report. Not here: the code (`text`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute

from ...runtime.native.abi.interface import Interface, TensorInterface
from ..to_native.header import C_TYPES, NOTES, macro_prefix
from ..to_native.program.program import Program
from ..to_native.program.views import View
from .ports import PORTS
from .text import Source

_BATCH = 1
"""Sizes do not depend on it."""


def program_files(
    program: Program, outputs: Sequence[View], interface: Interface, name: str, module: ModuleOp
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files by name, and the report.

    Args:
        program: planned.
        outputs: where its results stand.
        interface: names and types as callers see them.
        name: of the function.
        module: its attributes say how ports are scaled.

    Raises:
        RefusedError: something has no form in C.
    """
    source = Source(
        program, *([t.name for t in ts] for ts in (interface.inputs, interface.outputs))
    )
    before, calls = source.write()
    report = {
        "flash": {"constants": sum(source.constants.values()), "of": source.constants},
        "ram": {
            "memory": source.memory,
            "inputs": {t.name: _bytes(t) for t in interface.inputs},
            "outputs": {t.name: _bytes(t) for t in interface.outputs},
        },
    }
    del outputs
    includes = ["<stdint.h>", *(["<math.h>"] if _uses_math(before) else [])]
    includes += ["<string.h>"] if "mem" in before else []
    prototype = _prototype(interface, name)
    parts = [
        f"/* {name}. Made by Triton DSL; do not edit. Compile as C99: -std=c99. */",
        "\n".join([f'#include "{name}.h"', "", *(f"#include {file}" for file in includes)]),
        "#ifdef __clang__\n#pragma STDC FP_CONTRACT OFF\n#endif",
        before,
        "\n".join([prototype, "{", *calls, "}"]),
    ]
    code = "\n\n".join(filter(None, parts)) + "\n"
    files = {
        f"{name}.h": _header(interface, name, prototype, report, _ports(module)),
        f"{name}.c": code,
        "main.c": _main(interface, name),
        "report.json": json.dumps(report, indent=2, sort_keys=True) + "\n",
    }
    return {file: text.encode() for file, text in files.items()}, {"report": report}


_MATH = ("f(", "(double", "NAN", "INFINITY", "sqrt", "exp", "log", "rint", "floor", "ceil")


def _uses_math(code: str) -> bool:
    return "float" in code or "double" in code


def _bytes(tensor: TensorInterface) -> int:
    return prod(tensor.sizes(_BATCH)) * np.dtype(_numpy(tensor.dtype)).itemsize


def _numpy(name: str) -> str:
    return "uint16" if name == "bfloat16" else name


def _prototype(interface: Interface, name: str) -> str:
    arguments = [
        *(f"const {C_TYPES[t.dtype]} *{t.name}" for t in interface.inputs),
        *(f"{C_TYPES[t.dtype]} *{t.name}" for t in interface.outputs),
    ]
    return f"void {name}({', '.join(arguments) or 'void'})"


def _ports(module: ModuleOp) -> Mapping[str, Sequence[str]]:
    """How integers of inputs and outputs stand for numbers, where the caller must know."""
    attribute = module.attributes.get(PORTS)
    if not isinstance(attribute, DictionaryAttr):
        return {}
    found: dict[str, list[str]] = {}
    for key, entries in attribute.data.items():
        assert isinstance(entries, ArrayAttr)
        words: ArrayAttr[Attribute] = entries
        found[key] = [word.data for word in words if isinstance(word, StringAttr)]
    return found


def _header(
    interface: Interface,
    name: str,
    prototype: str,
    report: Mapping[str, Any],
    ports: Mapping[str, Sequence[str]],
) -> str:
    macro = macro_prefix(name)
    lines = [
        f"/* {name}. Made by Triton DSL; do not edit.",
        " *",
        " * Tensors are contiguous and row-major; outputs overlap nothing.",
    ]
    for role, key, tensors in (
        ("in ", "inputs", interface.inputs),
        ("out", "outputs", interface.outputs),
    ):
        scaled = ports.get(key, ())
        for number, tensor in enumerate(tensors):
            shape = ", ".join(map(str, tensor.sizes(_BATCH)))
            lines.append(
                f" * {role} {tensor.name}: {tensor.dtype} [{shape}]{NOTES.get(tensor.dtype, '')}"
            )
            if number < len(scaled) and scaled[number]:
                lines.append(f" *     stands for {scaled[number]}")
    lines += [
        " *",
        f" * {report['flash']['constants']} bytes of constants, {report['ram']['memory']} bytes of",
        " * static memory: one call at a time. Nothing else is kept or allocated.",
        " */",
        f"#ifndef {macro}_C_H",
        f"#define {macro}_C_H",
        "",
        "#include <stdint.h>",
        "",
    ]
    for role, tensors in (("INPUT", interface.inputs), ("OUTPUT", interface.outputs)):
        lines += [
            f"#define {macro}_{role}_{n}_ELEMENTS {prod(t.sizes(_BATCH))}"
            for n, t in enumerate(tensors)
        ]
    lines += [
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"{prototype};",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {macro}_C_H */",
    ]
    return "\n".join(lines) + "\n"


def _main(interface: Interface, name: str) -> str:
    """An example that calls the function once."""
    macro = macro_prefix(name)
    lines = [
        f"/* An example: one call of {name} on zeros, with its first output printed. */",
        f'#include "{name}.h"',
        "",
        "#include <stdio.h>",
        "",
    ]
    tensors = [("INPUT", interface.inputs), ("OUTPUT", interface.outputs)]
    for role, ports in tensors:
        lines += [
            f"static {C_TYPES[t.dtype]} {t.name}[{macro}_{role}_{n}_ELEMENTS + 1];"
            for n, t in enumerate(ports)
        ]
    names = [t.name for _, ports in tensors for t in ports]
    lines += ["", "int main(void)", "{", f"    {name}({', '.join(names)});"]
    if interface.outputs:
        first = interface.outputs[0].name
        lines += [
            f"    for (int i = 0; i < {macro}_OUTPUT_0_ELEMENTS; i++) {{",
            f'        printf("%g\\n", (double){first}[i]);',
            "    }",
        ]
    return "\n".join([*lines, "    return 0;", "}"]) + "\n"
