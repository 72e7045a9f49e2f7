"""The whole generated file: imports, library functions, the class, and `load`.

The text is laid out as ruff formats it with lines of 100 columns.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import PurePath
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation

from ...dialects.inference import fail
from ...dialects.shapes import DYNAMIC, AnyTensor
from ...dialects.spike.types import TrainType
from ...dialects.ternary.types import TritType
from ...ir.value_names import DIMENSIONS_ATTRIBUTE, argument_names
from ..emission import Names, UnsupportedOps, entry_function
from . import (
    rules_elementwise,
    rules_linear,
    rules_quantization,
    rules_shape,
    rules_spiking,
)
from .declaration import declare_state
from .expressions import layout, printable
from .forward import Forward, Rule
from .library_text import closure, library
from .state import Entry, State, shapes_literal

TARGET = "pytorch"

RULES: dict[type[Operation], Rule] = {
    **rules_elementwise.RULES,  # pyright: ignore[reportAssignmentType]
    **rules_linear.RULES,
    **rules_quantization.RULES,
    **rules_shape.RULES,
    **rules_spiking.RULES,
}
"""For each op the function that gives its PyTorch form."""

_IMPORTS = frozenset({"base64", "hashlib", "itertools", "json", "math", "weakref"})
_FROM_IMPORTS = {
    "Callable": ("collections.abc", "Callable"),
    "Mapping": ("collections.abc", "Mapping"),
    "Sequence": ("collections.abc", "Sequence"),
    "Path": ("pathlib", "Path"),
    "SimpleNamespace": ("types", "SimpleNamespace"),
    "Any": ("typing", "Any"),
}
_KERNELS = frozenset({"ternary_conv2d", "ternary_linear"})
_NEURONS = frozenset({"neurons"})
_MODULES = _IMPORTS | _FROM_IMPORTS.keys() | _KERNELS | _NEURONS


@dataclass(frozen=True)
class ModuleSource:
    """A generated file and what an artefact needs to know of it.

    Attributes:
        text: the Python source.
        class_name: the `nn.Module` in it.
        state_keys: the key in `state_dict` for each parameter key of the program.
    """

    text: str
    class_name: str
    state_keys: dict[str, str]


def module_source(
    module: ModuleOp,
    *,
    class_name: str | None = None,
    weights: str = "none",
    embedded: str | None = None,
) -> ModuleSource:
    """Write the file of a module.

    Args:
        module: a module with `@forward`.
        class_name: the name of the class; by default the module's own, the layer's.
        weights: `file` adds a function `load` that reads the file beside the source, `embed` one
            that reads `embedded`; `none` adds nothing.
        embedded: a safetensors file in base64.

    Raises:
        UnsupportedError: names every op without a PyTorch form.
    """
    function = entry_function(module, TARGET)
    unsupported = UnsupportedOps(TARGET)
    for op in module.body.block.ops:
        if op is not function:
            unsupported.add(op, "only the function @forward is translated")
    if len(function.body.blocks) != 1:
        unsupported.add(function, "control flow is not translated")
    unsupported.raise_if_any()
    names = Names({"self", "torch", "nn", "F", "load", "WEIGHTS", *library(), *_MODULES})
    for builtin in dir(builtins):
        names.reserve(builtin)
    name = names.new(class_name or (module.sym_name.data if module.sym_name else "Model"))
    state = declare_state(module)
    registrations = state.registrations()
    forward = Forward(RULES, state, names)
    arguments = [names.new(argument) for argument in argument_names(function)]
    for value, argument in zip(function.args, arguments, strict=True):
        forward.argument(value, argument)
    forward.run(list(function.body.block.ops), unsupported)
    unsupported.raise_if_any()

    if state.ternary_shapes():
        forward.used.add("pack_ternary_entries")
    if weights != "none":
        forward.used.add("decode_weights" if weights == "embed" else "read_safetensors")
    blocks = [
        *closure(forward.used),
        *(["\n".join(forward.preamble)] if forward.preamble else []),
        "\n".join(_class(module, name, state, registrations, arguments, forward)),
        *_loading(name, weights, embedded),
    ]
    names_used = _names(blocks)
    head = [_file_docstring(module, name, names_used), _imports(names_used)]
    if kernels := sorted(_KERNELS & names_used):
        head.append(_optional_import("operators", kernels))
    if neurons := sorted(_NEURONS & names_used):
        head.append(_optional_import("spiking", neurons))
    text = "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(blocks) + "\n"
    return ModuleSource(text, name, {e.key: e.state_key for e in state.entries.values()})


def _class(
    module: ModuleOp,
    name: str,
    state: State,
    registrations: Sequence[str],
    arguments: Sequence[str],
    forward: Forward,
) -> list[str]:
    function = entry_function(module, TARGET)
    shapes, initial = state.ternary_shapes(), _reset_parameters(state)
    lines = [f"class {name}(nn.Module):", *_docstring(_class_docstring(function, state), 4)]
    if shapes:
        lines += ["", *shapes_literal(shapes)]
    lines += ["", "    def __init__(self) -> None:", "        super().__init__()"]
    lines += _initialisation([*registrations, *forward.constants])
    if initial:
        lines += ["        self.reset_parameters()", "", *initial]
    typed = ["self", *(f"{argument}: torch.Tensor" for argument in arguments)]
    lines += ["", *_signature(f"def forward({', '.join(typed)}) -> {_result_type(function)}:")]
    lines += forward.lines
    return [*lines, *_LOADING] if shapes else lines


def _reset_parameters(state: State) -> list[str]:
    """`reset_parameters`, where training from zeros would go nowhere: with latents of trits."""
    if not any(entry.latent for entry in state.entries.values()):
        return []
    lines = [
        "    def reset_parameters(self) -> None:",
        '        """Draw the weights: uniform, with a bound of 1 / sqrt(inputs of a neuron)."""',
    ]
    for entry in state.entries.values():
        if not entry.buffer and len(entry.shape) >= 2:
            bound = round(1 / sqrt(max(1, _fan_in(entry))), 6)
            lines += layout(f"nn.init.uniform_({entry.access}, -{bound}, {bound})", 8)
    return lines


def _fan_in(entry: Entry) -> int:
    """Inputs of a neuron: [in, out] matrices, OIHW kernels."""
    return entry.shape[0] if len(entry.shape) == 2 else prod(entry.shape[1:])


def _initialisation(statements: Sequence[str]) -> list[str]:
    lines: list[str] = []
    noted = False
    for statement in statements:
        if "dtype=torch.uint8" in statement and not noted:
            lines.append("        # Ternary parameters are stored packed, four trits to a byte.")
            noted = True
        lines += layout(statement, 8)
    return lines


_LOADING = [
    "",
    "    def _load_from_state_dict(",
    "        self, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs",
    "    ) -> None:",
    "        pack_ternary_entries(state_dict, prefix, self.TERNARY_SHAPES, error_msgs)",
    "        super()._load_from_state_dict(",
    "            state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs",
    "        )",
]


def _loading(name: str, weights: str, embedded: str | None) -> list[str]:
    """The blocks after the class: embedded weights, and `load`."""
    if weights == "none":
        return []
    if weights == "embed":
        rows = [f'    "{row}"' for row in textwrap.wrap(embedded or "", 92)]
        load = f"""\
def load() -> {name}:
    \"\"\"The module with its weights, ready for inference.\"\"\"
    model = {name}()
    model.load_state_dict(decode_weights(WEIGHTS))
    return model.eval()"""
        return ["\n".join(["WEIGHTS = (", *rows, ")"]), load]
    return [
        f"""\
def load(path: str | Path | None = None) -> {name}:
    \"\"\"The module with the weights of a safetensors file, by default the one beside this.\"\"\"
    file = Path(__file__).with_suffix(".safetensors") if path is None else Path(path)
    model = {name}()
    model.load_state_dict(read_safetensors(file.read_bytes()))
    return model.eval()"""
    ]


def _result_type(function: func.FuncOp) -> str:
    count = len(function.function_type.outputs)
    return "torch.Tensor" if count == 1 else f"tuple[{', '.join(['torch.Tensor'] * count) or '()'}]"


def _signature(text: str) -> list[str]:
    line = f"    {text}"
    if len(line) <= 100:
        return [line]
    start, end = text.index("("), text.rindex(") ->")
    inner = text[start + 1 : end]
    if len(inner) + 8 <= 100:
        return [line[: start + 5], f"        {inner}", f"    {text[end:]}"]
    arguments = [f"        {argument}," for argument in inner.split(", ")]
    return [line[: start + 5], *arguments, f"    {text[end:]}"]


def _origin(module: ModuleOp) -> str | None:
    for op in module.walk():
        if isinstance(location := op.location, FileLineColLoc):
            file = location.filename.data
            if not file.startswith("<"):
                return PurePath(file).name
    return None


def _file_docstring(module: ModuleOp, name: str, used: set[str]) -> str:
    origin = _origin(module)
    source = f" from {printable(origin)}" if origin else ""
    own = [
        *(["its kernels multiply packed weights"] if used & _KERNELS else []),
        *(["its neurons run"] if used & _NEURONS else []),
    ]
    installed = f" Where Triton DSL is installed, {' and '.join(own)}." if own else ""
    first = f"{name}: a PyTorch module, generated by Triton DSL{source}."
    return "\n".join(_docstring([first, f"It needs PyTorch alone.{installed}"], 0))


def _class_docstring(function: func.FuncOp, state: State) -> list[str]:
    types = function.function_type
    inputs = [
        f"{printable(name)}: {_show_type(type, sizes)}"
        for name, type, sizes in zip(
            argument_names(function),
            types.inputs,
            _dimensions(function.arg_attrs, len(types.inputs)),
            strict=True,
        )
    ]
    sizes = _dimensions(function.res_attrs, len(types.outputs))
    outputs = [_show_type(*pair) for pair in zip(types.outputs, sizes, strict=True)]
    lines = [f"Maps {', '.join(inputs) or 'nothing'} to {', '.join(outputs) or 'nothing'}."]
    if state.ternary_shapes():
        lines.append(
            "`load_state_dict` takes ternary parameters packed, or as tensors with values -1, 0, 1."
        )
    return lines


def _dimensions(
    attributes: ArrayAttr[DictionaryAttr] | None, count: int
) -> list[Sequence[str] | None]:
    """The sizes of each argument or result as the source writes them, where it does."""
    if attributes is None:
        return [None] * count
    return [_texts(attribute.data.get(DIMENSIONS_ATTRIBUTE)) for attribute in attributes]


def _texts(attribute: Attribute | None) -> Sequence[str] | None:
    if not isinstance(attribute, ArrayAttr):
        return None
    return [size.data for size in cast("ArrayAttr[StringAttr]", attribute)]


def _show_type(type: Attribute, dimensions: Sequence[str] | None) -> str:
    if not isinstance(type, TensorType | TrainType):
        fail(f"expects a tensor or a spike train, got {type}")
    known = cast("AnyTensor | TrainType", type)
    sizes = ["N" if size == DYNAMIC else str(size) for size in known.get_shape()]
    if dimensions is not None and len(dimensions) == len(sizes):
        sizes = [printable(size) for size in dimensions]
    if isinstance(known, TrainType):
        return f"spikes[{', '.join(sizes)}]"
    element = "trit" if isinstance(known.element_type, TritType) else str(known.element_type)
    return f"{element}[{', '.join(sizes)}]" if sizes else element


def _docstring(paragraphs: list[str], indent: int) -> list[str]:
    space = " " * indent
    width = 100 - indent
    first, *rest = paragraphs
    lines = textwrap.wrap(f'"""{first}', width - 3)
    for paragraph in rest:
        lines += ["", *textwrap.wrap(paragraph, width)]
    if rest:
        return [f"{space}{line}".rstrip() for line in lines] + [f'{space}"""']
    return [f"{space}{line}".rstrip() for line in lines[:-1]] + [f'{space}{lines[-1]}"""']


def _names(texts: Sequence[str]) -> set[str]:
    return {
        node.id
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name)
    }


def _optional_import(package: str, names: Sequence[str]) -> str:
    return f"""\
try:
    from triton_dsl.runtime.{package} import {", ".join(names)}
except ImportError:
    {" = ".join(names)} = None"""


def _imports(used: set[str]) -> str:
    plain = [f"import {name}" for name in sorted(_IMPORTS & used)]
    froms: dict[str, list[str]] = {}
    for name in sorted(_FROM_IMPORTS.keys() & used):
        froms.setdefault(_FROM_IMPORTS[name][0], []).append(name)
    plain += [f"from {place} import {', '.join(items)}" for place, items in sorted(froms.items())]
    own = ["import torch", "import torch.nn as nn"]
    if "F" in used:
        own.append("import torch.nn.functional as F")
    return "\n".join([*plain, *([""] if plain else []), *own])
