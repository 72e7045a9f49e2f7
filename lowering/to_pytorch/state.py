"""Parameters of a generated module: dotted keys as attributes, and how each is registered.

The `state_dict` keys of the generated module are the keys of the program. Parts of a key become
`nn.Module` containers, `nn.ModuleList`s where they are numbers from 0 on.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Literal

from xdsl.dialects.builtin import AnyFloat, Float32Type
from xdsl.ir import Attribute

from ...dialects import ternary
from ...dialects.elements import numpy_dtype
from ...dialects.parameters import ParameterLike
from ...dialects.shapes import Shape
from ...ir.errors import LoweringError
from ...ir.trits import packed_size
from .expressions import Expr, sequence, string_literal

MODULE_ATTRIBUTES = frozenset(
    """
    T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda
    double dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter
    get_submodule half ipu load_state_dict modules mtia named_buffers named_children
    named_modules named_parameters parameters register_backward_hook register_buffer
    register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter
    register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ reset_parameters
    set_extra_state set_submodule share_memory state_dict to to_empty train training type xpu
    zero_grad TERNARY_SHAPES
    """.split()  # noqa: SIM905
)
"""Names that `nn.Module` and the generated class use themselves."""

Initial = Literal["zeros", "ones"]


@dataclass(eq=False)
class Entry:
    """One parameter or buffer.

    Attributes:
        key: its key in the program and, but for clashes, in `state_dict`.
        element: the element type of the IR.
        shape: the logical shape.
        buffer: whether it is kept out of `parameters()`.
        initial: what it holds before weights are loaded.
        latent: whether it is a float that stands behind trits.
    """

    key: str
    element: Attribute
    shape: Shape
    buffer: bool
    initial: Initial = "zeros"
    latent: bool = False
    path: tuple[str, ...] = ()
    access: Expr = field(default_factory=lambda: Expr(""))

    @property
    def packed(self) -> bool:
        """Whether it holds trits, four to a byte."""
        return isinstance(self.element, ternary.TritType)

    @property
    def state_key(self) -> str:
        """The key in `state_dict`."""
        return ".".join(self.path)

    @property
    def initial_value(self) -> str:
        """`torch.zeros(10)` and the like."""
        if self.packed:
            return f"torch.zeros({packed_size(self.shape)}, dtype=torch.uint8)"
        size = ", ".join(map(str, self.shape)) or "()"
        if isinstance(self.element, Float32Type):
            return f"torch.{self.initial}({size})"
        return f"torch.{self.initial}({size}, dtype={torch_dtype(self.element)})"


def torch_dtype(element: Attribute) -> str:
    """`torch.float32` and the like."""
    return f"torch.{numpy_dtype(element).name}"


@dataclass(eq=False)
class _Node:
    children: dict[str, _Node | Entry] = field(default_factory=dict[str, "_Node | Entry"])
    is_root: bool = False

    @property
    def container(self) -> str:
        names = list(self.children)
        numbered = names == [str(i) for i in range(len(names))]
        leaves = any(isinstance(child, Entry) for child in self.children.values())
        if numbered and not leaves and not self.is_root:
            return "nn.ModuleList()"
        return "nn.Module()"


class State:
    """Every parameter and buffer of a generated module, in the program's order."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def declare(self, op: ParameterLike) -> Entry:
        """The entry of a parameter op; two ops may share one.

        Raises:
            LoweringError: two ops give one key different types.
        """
        entry = Entry(
            op.key.data,
            op.result.type.element_type,
            op.result.type.get_shape(),
            buffer=isinstance(op, ternary.ParameterOp)
            or op.buffer is not None
            or not isinstance(op.result.type.element_type, AnyFloat),
        )
        known = self.entries.setdefault(entry.key, entry)
        if (known.element, known.shape) != (entry.element, entry.shape):
            raise LoweringError(f"parameter '{entry.key}' has two types")
        return known

    def place(self) -> _Node:
        """Give each entry its path and the expression that reads it; the tree of containers."""
        root = _Node(is_root=True)
        prefixes = {
            key[:i] for key in self.entries for i in range(len(key)) if key[i] == "."
        } & self.entries.keys()
        keys = set(self.entries)
        for entry in self.entries.values():
            entry.path = _path(entry.key, prefixes, keys)
            node = root
            for part in entry.path[:-1]:
                child = node.children.setdefault(part, _Node())
                assert isinstance(child, _Node)
                node = child
            node.children[entry.path[-1]] = entry
        _sort_numbers(root)
        _set_access(root, Expr("self"))
        return root

    def registrations(self) -> list[str]:
        """The statements of `__init__` that make containers, parameters and buffers."""
        return list(_register(self.place(), Expr("self")))

    def ternary_shapes(self) -> Mapping[str, Shape]:
        """Logical shape of each packed entry by its `state_dict` key."""
        return {e.state_key: e.shape for e in self.entries.values() if e.packed}


def _path(key: str, prefixes: set[str], keys: set[str]) -> tuple[str, ...]:
    """The parts of a key; one that runs through another entry's key is cut there.

    `training` becomes `training_`: `nn.Module.train` assigns to that name.
    """
    parts = [{"": "_", "training": "training_"}.get(part, part) for part in key.split(".")]
    for end in range(len(parts) - 1, 0, -1):
        if ".".join(parts[:end]) in prefixes:
            merged = "_".join(parts[end - 1 :])
            while ".".join([*parts[: end - 1], merged]) in keys:
                merged += "_"
            parts = [*parts[: end - 1], merged]
            keys.add(".".join(parts))
    return tuple(parts)


def _sort_numbers(node: _Node) -> None:
    if all(name.isdecimal() for name in node.children):
        node.children = dict(sorted(node.children.items(), key=lambda item: int(item[0])))
    for child in node.children.values():
        if isinstance(child, _Node):
            _sort_numbers(child)


def _plain(name: str) -> bool:
    return (
        name.isidentifier()
        and name == unicodedata.normalize("NFKC", name)  # as Python reads identifiers
        and not iskeyword(name)
        and not name.startswith("_")
        and name not in MODULE_ATTRIBUTES
    )


def _access(node: _Node, owner: Expr, name: str) -> Expr:
    child = node.children[name]
    if node.container == "nn.ModuleList()":
        return owner.index(name)
    if _plain(name):
        return owner.member(name)
    if isinstance(child, _Node):
        table = "_modules"
    else:
        table = "_buffers" if child.buffer else "_parameters"
    return owner.member(table).index(string_literal(name))


def _set_access(node: _Node, owner: Expr) -> None:
    for name, child in node.children.items():
        access = _access(node, owner, name)
        if isinstance(child, _Node):
            _set_access(child, access)
        else:
            child.access = access


def _register(node: _Node, owner: Expr) -> Iterable[str]:
    for name, child in node.children.items():
        access = _access(node, owner, name)
        if isinstance(child, _Node):
            if node.container == "nn.ModuleList()":
                yield f"{owner}.append({child.container})"
            else:
                yield f"{access} = {child.container}"
            yield from _register(child, access)
        elif child.buffer and _plain(name):
            yield f"{owner}.register_buffer({string_literal(name)}, {child.initial_value})"
        elif child.buffer:
            yield f"{access} = {child.initial_value}"
        else:
            yield f"{access} = nn.Parameter({child.initial_value})"


def shapes_literal(shapes: Mapping[str, Shape]) -> list[str]:
    """The lines of a dictionary of shapes, for the body of a class."""
    items = [f"{string_literal(key)}: {sequence(shape)}" for key, shape in shapes.items()]
    line = f"    TERNARY_SHAPES = {{{', '.join(items)}}}"
    if len(line) <= 100:
        return [line]
    return ["    TERNARY_SHAPES = {", *(f"        {item}," for item in items), "    }"]
