"""The example in the docstring of an op, as a function that can be parsed."""

import inspect
import re

from xdsl.ir import Operation

TYPE = r"(?:tensor|!spike\.train)<[^>]*>"


def example_of(kind: type[Operation]) -> str:
    """The IR at the end of an op's docstring, as one line."""
    doc = inspect.getdoc(kind) or ""
    start = re.search(r"^\s*%", doc, re.MULTILINE)
    assert start is not None, f"{kind.name} has no example"
    # Prose may follow after an empty line.
    return " ".join(doc[start.start() :].split("\n\n")[0].split())


def function_around(example: str) -> str:
    """A function whose arguments are the values that `example` uses."""
    call = example.partition("=")[2].partition("{ ^bb0")[0]
    inline = re.findall(rf"\((%\w+) : ({TYPE})\)", call)
    names = [n for n in re.findall(r"%\w+", call) if n not in dict(inline)]
    leading = re.sub(rf"\(%\w+ : {TYPE}\)", "", call).rpartition("->")[0]
    types = re.findall(TYPE, leading)[: len(names)]
    arguments = [*zip(names, types, strict=True), *inline]
    declared = ", ".join(f"{name}: {type}" for name, type in arguments)
    return f"func.func @forward({declared}) {{\n  {example}\n  func.return\n}}\n"
