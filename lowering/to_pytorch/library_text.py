"""The texts that generated modules carry: library functions, and the steps of neurons.

Functions are copied from `library*`, and from the files of the package that say a thing once:
random words, what a neuron does in a step, and the arithmetic of that on tensors.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ...ir.errors import LoweringError
from ...ir.neurons import MODELS
from ...ir.neurons.arithmetic import Options


@cache
def library() -> dict[str, tuple[str, frozenset[str]]]:
    """Text of each library function, class or table and the names it uses."""
    here = Path(__file__)
    package = here.parents[2]
    copied = [here.with_name("library.py"), here.with_name("library_spiking.py")]
    copied += [package / "dialects/spike/threefry.py", package / "runtime/spiking/threefry.py"]
    functions: dict[str, tuple[str, frozenset[str]]] = {}
    for path in copied:
        functions |= _texts_of(path.read_text(encoding="utf-8"))
    equations = (package / "ir/neurons/arithmetic.py").read_text(encoding="utf-8")
    tensors = (package / "runtime/spiking/steps.py").read_text(encoding="utf-8")
    files = dict.fromkeys(inspect.getsourcefile(model.step) for model in MODELS.values())
    steps = [Path(file).read_text(encoding="utf-8") for file in files if file is not None]
    for text in (_arithmetic([equations, tensors]), *map(_steps, [*steps, tensors])):
        functions |= _texts_of(text)
    defaults = ", ".join(f"{name}={value!r}" for name, value in vars(Options()).items())
    functions["OPTIONS"] = (f"OPTIONS = dict({defaults})".replace("'", '"'), frozenset())
    return functions


def _steps(text: str) -> str:
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return "\n\n\n".join(_untyped(node, text) for node in functions)


def _arithmetic(texts: Iterable[str]) -> str:
    """The last class of arithmetic, with what those before it give it, and without bases."""
    methods: dict[str, str] = {}
    head = ""
    for text in texts:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Arithmetic"):
                own = [n for n in node.body if isinstance(n, ast.FunctionDef)]
                own = [n for n in own if not n.decorator_list]  # those that are not abstract
                methods = {n.name: _untyped(n, text) for n in own} | {
                    name: method
                    for name, method in methods.items()
                    if name not in {n.name for n in own}
                }
                doc = ast.get_source_segment(text, node.body[0])
                head = f"class {node.name}:\n    {doc}\n\n"
    return head + "\n\n".join(f"    {method}" for method in methods.values())


def _untyped(node: ast.FunctionDef, text: str) -> str:
    """A function without types, which stand for values of any kind."""
    arguments = node.args
    for argument in arguments.args:
        argument.annotation = None
    lines = text.splitlines()[node.body[0].lineno - 1 : node.end_lineno]
    return "\n".join([f"def {node.name}({ast.unparse(arguments)}):", *lines])


def _texts_of(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    texts: dict[str, tuple[str, frozenset[str]]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        else:
            continue
        source = ast.get_source_segment(text, node)
        assert source is not None
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        texts[name] = (source, frozenset(used - {name}))
    return texts


def closure(used: set[str]) -> list[str]:
    """The texts of what `used` names and needs, in the library's order.

    Raises:
        LoweringError: a name that the library does not have.
    """
    known = library()
    needed: set[str] = set()
    waiting = sorted(used)
    while waiting:
        name = waiting.pop()
        if name not in known:
            raise LoweringError(f"no library function '{name}'")
        if name not in needed:
            needed.add(name)
            waiting += sorted(known[name][1] & known.keys())
    return [known[name][0] for name in known if name in needed]
