"""The files of a program in C: header, code, an example, a report. Not here: the code (`text`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ...runtime.native.abi.interface import Interface, TensorInterface
from ...runtime.native.program import dtype_named
from ..emission import Names
from ..to_native.header import C_TYPES, NOTES, macro_prefix
from ..to_native.program.program import Program
from .ports import noted_ports
from .text import Source

_BATCH = 1
"""Sizes do not depend on it."""
_MADE = "Made by Triton DSL; do not edit."


@dataclass(frozen=True)
class Written:
    """The files of a program.

    Attributes:
        name: of the function and of the files.
        interface: names and types as callers see them.
        ports: how integers of `inputs` and `outputs` stand for numbers.
        code: what stands before the function, and its statements.
        report: bytes of flash and of RAM.
    """

    name: str
    interface: Interface
    ports: Mapping[str, Sequence[str]]
    code: tuple[str, Sequence[str]]
    report: Mapping[str, Any]

    @staticmethod
    def of(program: Program, interface: Interface, name: str, module: ModuleOp) -> Written:
        """A planned program; the attributes of its module say how ports are scaled.

        Raises:
            RefusedError: something has no form in C.
        """
        inputs, outputs = _numbered(interface)
        source = Source(program, inputs, outputs)
        code = source.write()
        while name == "main" or re.search(rf"\b{name}\b", "\n".join([code[0], *code[1]])):
            name += "_"
        report = {
            "flash": {"constants": sum(source.constants.values()), "of": source.constants},
            "ram": {
                "memory": source.memory,
                "inputs": {t.name: _bytes(t) for t in interface.inputs},
                "outputs": {t.name: _bytes(t) for t in interface.outputs},
            },
        }
        return Written(name, interface, noted_ports(module), code, report)

    def files(self) -> dict[str, bytes]:
        """Content by name."""
        report = json.dumps(self.report, indent=2, sort_keys=True) + "\n"
        texts = {
            f"{self.name}.h": self._header(),
            f"{self.name}.c": self._source(),
            "main.c": self._main(),
            "report.json": report,
        }
        return {name: text.encode() for name, text in texts.items()}

    @property
    def _tensors(self) -> Sequence[tuple[str, TensorInterface]]:
        """Inputs and outputs with the beginning of their macros."""
        macro, interface = macro_prefix(self.name), self.interface
        roles = (("INPUT", interface.inputs), ("OUTPUT", interface.outputs))
        return [
            (f"{macro}_{role}_{n}", tensor) for role, ts in roles for n, tensor in enumerate(ts)
        ]

    def _prototype(self, inputs: Sequence[str], outputs: Sequence[str]) -> str:
        given = zip(self.interface.inputs, inputs, strict=True)
        made = zip(self.interface.outputs, outputs, strict=True)
        arguments = [
            *(f"const {C_TYPES[t.dtype]} *{name}" for t, name in given),
            *(f"{C_TYPES[t.dtype]} *{name}" for t, name in made),
        ]
        return f"void {self.name}({', '.join(arguments) or 'void'})"

    def _source(self) -> str:
        before, calls = self.code
        inputs, outputs = _numbered(self.interface)
        named = set(re.findall(r"\w+", "\n".join(calls)))
        idle = [f"    (void){name};" for name in inputs if name not in named]
        floats = "float" in before or "double" in before
        includes = [f'#include "{self.name}.h"', "", "#include <stdint.h>"]
        includes += ["#include <math.h>"] if floats else []
        includes += ["#include <string.h>"] if re.search("memcpy|memset", before) else []
        if "__smlad" in before:
            includes += ["#ifdef __ARM_FEATURE_SIMD32", "#include <arm_acle.h>", "#endif"]
        parts = [
            f"/* {self.name}: {_MADE} Compile it as C99 (-std=c99). */",
            "\n".join(includes),
            "#ifdef __clang__\n#pragma STDC FP_CONTRACT OFF\n#endif" if floats else "",
            before,
            "\n".join([self._prototype(inputs, outputs), "{", *idle, *calls, "}"]),
        ]
        return "\n\n".join(filter(None, parts)) + "\n"

    def _header(self) -> str:
        guard = f"{macro_prefix(self.name)}_C_H"
        flash, ram = self.report["flash"]["constants"], self.report["ram"]["memory"]
        tensors = (self.interface.inputs, self.interface.outputs)
        lines = [
            f"/* {self.name}: {_MADE}",
            " *",
            " * Tensors are contiguous and row-major; outputs overlap nothing.",
            *self._described("in ", self.interface.inputs, self.ports.get("inputs", ())),
            *self._described("out", self.interface.outputs, self.ports.get("outputs", ())),
            " *",
            f" * {flash} bytes of constants and {ram} of static memory, which serves one call at a",
            " * time. Nothing is allocated, and nothing kept from one call to the next.",
            " */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stdint.h>",
            "",
            *(f"#define {macro}_ELEMENTS {prod(t.sizes(_BATCH))}" for macro, t in self._tensors),
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            f"{self._prototype(*([t.name for t in ts] for ts in tensors))};",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            f"#endif /* {guard} */",
        ]
        return "\n".join(lines) + "\n"

    def _described(
        self, role: str, tensors: Sequence[TensorInterface], scaled: Sequence[str]
    ) -> list[str]:
        lines: list[str] = []
        for number, tensor in enumerate(tensors):
            shape = list(tensor.sizes(_BATCH))
            note = NOTES.get(tensor.dtype, "")
            lines.append(f" * {role} {tensor.name}: {tensor.dtype} {shape}{note}")
            if number < len(scaled) and scaled[number]:
                lines.append(f" *     for {scaled[number]}")
        return lines

    def _main(self) -> str:
        """An example that calls the function once."""
        free = Names((self.name, "i", "main", "printf"))
        names = [free.new(t.name) for _, t in self._tensors]
        lines = [
            f"/* An example: {self.name} of zeros. */",
            f'#include "{self.name}.h"',
            "",
            "#include <stdio.h>",
            "",
            *(
                f"static {C_TYPES[t.dtype]} {name}[{macro}_ELEMENTS ? {macro}_ELEMENTS : 1];"
                for name, (macro, t) in zip(names, self._tensors, strict=True)
            ),
            "",
            "int main(void)",
            "{",
            f"    {self.name}({', '.join(names)});",
        ]
        first = len(self.interface.inputs)
        for name, (macro, _) in zip(names[first:], self._tensors[first:], strict=True):
            lines += [
                f"    for (int i = 0; i < {macro}_ELEMENTS; i++) {{",
                f'        printf("{name}[%d] = %g\\n", i, (double){name}[i]);',
                "    }",
            ]
        return "\n".join([*lines, "    return 0;", "}"]) + "\n"


def _numbered(interface: Interface) -> tuple[list[str], list[str]]:
    """What the code calls inputs and outputs, whose own names may be those of something in it."""
    counts = len(interface.inputs), len(interface.outputs)
    return [f"in{n}" for n in range(counts[0])], [f"out{n}" for n in range(counts[1])]


def _bytes(tensor: TensorInterface) -> int:
    return prod(tensor.sizes(_BATCH)) * dtype_named(tensor.dtype).itemsize
