"""What a built-in function is: its parameters, and the rule that gives its result's type.

A rule sees types and compile-time arguments only, never values, and reports with `RuleError`; the
evaluator knows where in the source the call stands. The functions themselves are in `builtins` and
the `rules_*` files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias, cast

from .assumptions import Assumptions
from .dims import Dim
from .types import FLOATS, TensorType, TypeMismatch, broadcast_shapes, promote, shapes_equal

ParameterKind = Literal[
    "tensor", "tensors", "operand", "setting", "int", "float", "bool", "string", "ints", "shape"
]
"""What a parameter takes.

`tensor` a run-time tensor; `tensors` several, as a list or one after the other; `operand` a tensor
or a number, always an operand; `setting` a number (an attribute) or a tensor (an operand); `int`
`float` `bool` `string` a compile-time value; `ints` one integer or a list; `shape` a list of sizes.
"""

Result = TensorType | tuple[TensorType, ...]


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()
"""The default of a parameter that has none."""


class RuleError(Exception):
    """A call that breaks a rule.

    Attributes:
        message: the sentence for the user, without the function's name.
        argument: the parameter to point at, or `None` for the whole call.
        suggestion: what to write instead.
    """

    def __init__(
        self, message: str, argument: str | None = None, suggestion: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.argument = argument
        self.suggestion = suggestion


class Undetermined(Exception):
    """The result's type hangs on a generic argument that is not known yet."""


@dataclass(frozen=True)
class Opaque:
    """A compile-time value of a known type (`int float bool string`) that is not known yet."""

    kind: str


@dataclass(frozen=True)
class Parameter:
    """A parameter of a built-in; `default` is `REQUIRED`, a value, or `None` for absent."""

    name: str
    kind: ParameterKind = "tensor"
    default: object = REQUIRED
    choices: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        """Whether a call must give it."""
        return isinstance(self.default, _Required)

    def __str__(self) -> str:
        if self.is_required:
            return self.name
        if self.default is None:
            return f"{self.name}=none"
        if isinstance(self.default, bool):
            return f"{self.name}={str(self.default).lower()}"
        if isinstance(self.default, str):
            return f'{self.name}="{self.default}"'
        return f"{self.name}={self.default}"


@dataclass
class RuleCall:
    """One call as a rule sees it.

    Attributes:
        types: types of the single tensors that were given, by parameter name.
        lists: types of the `tensors` parameters.
        attributes: every compile-time argument, defaults included; a rule may rewrite it, and what
            it leaves becomes the operation's attributes.
        casts: filled by the rule: operands to convert first, and the element type to convert to.
    """

    function: str
    types: dict[str, TensorType]
    lists: dict[str, tuple[TensorType, ...]]
    attributes: dict[str, Any]
    assumptions: Assumptions
    casts: dict[str, str] = field(default_factory=dict[str, str])

    def fail(
        self, message: str, argument: str | None = None, suggestion: str | None = None
    ) -> NoReturn:
        """Refuse the call."""
        raise RuleError(message, argument, suggestion)

    def dense(self, name: str) -> TensorType:
        """The type of a tensor that must not be a spike train; a trit tensor reads as `int8`."""
        tensor = self.types[name]
        if tensor.kind == "spike":
            self.fail(
                f"needs a dense tensor but '{name}' is {tensor}",
                name,
                "turn spikes into numbers with decode(…)",
            )
        if tensor.kind == "ternary":
            self.casts[name] = "int8"
            return tensor.with_element("int8")
        return tensor

    def floating(self, name: str) -> TensorType:
        """The type of a dense tensor after conversion to floats; integers become `float32`."""
        tensor = self.dense(name)
        if not tensor.is_float:
            self.casts[name] = "float32"
            return tensor.with_element("float32")
        return tensor

    def numeric(self, name: str) -> TensorType:
        """The type of a dense tensor of numbers; `bool` is refused."""
        tensor = self.dense(name)
        if tensor.element == "bool":
            self.fail(f"needs numbers but '{name}' is {tensor}", name)
        return tensor

    def ternary(self, name: str) -> TensorType:
        """The type of a tensor that must be ternary."""
        tensor = self.types[name]
        if tensor.kind != "ternary":
            self.fail(
                f"needs a TernaryTensor but '{name}' is {tensor}",
                name,
                "convert it with ternarize(…)",
            )
        return tensor

    def unify_elements(self, names: Sequence[str]) -> str:
        """The common element type of several tensors; those that differ are cast to it."""
        present = [name for name in names if name in self.types]
        element = self.types[present[0]].element
        for name in present[1:]:
            element = promote(element, self.types[name].element)
        if element == "trit":
            element = "int8"
        for name in present:
            if self.types[name].element != element:
                self.casts[name] = element
            else:
                self.casts.pop(name, None)
        return element

    def broadcast(self, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The common shape of several."""
        result: tuple[Dim, ...] = ()
        for shape in shapes:
            try:
                result = broadcast_shapes(result, shape, self.assumptions)
            except TypeMismatch as error:
                self.fail(f"shapes do not broadcast: {error}")
        return result

    def rank(self, name: str, *allowed: int, like: str) -> TensorType:
        """The type of `name`, which must have one of the ranks; `like` shows the layout."""
        tensor = self.types[name]
        if tensor.rank not in allowed:
            self.fail(f"needs '{name}' of the form {like}, found {tensor}", name)
        return tensor

    def number(self, name: str) -> Any:
        """A compile-time argument that must be known."""
        return self.known(self.attributes[name])

    def known(self, value: Any) -> Any:
        """`value` unless it is a symbolic one.

        Raises:
            Undetermined: it depends on a generic.
            RuleError: it depends on a size that only the run knows.
        """
        if isinstance(value, Opaque):
            raise Undetermined
        if isinstance(value, Dim):
            if value.is_unknown or value.symbols() & self.assumptions.generics:
                raise Undetermined
            self.fail(f"needs a number known while compiling, found the size {value}")
        return value

    def check_seed(self) -> None:
        """Refuse a `seed` that no generator begins with."""
        seed = self.attributes["seed"]
        if isinstance(seed, int) and not 0 <= seed < 2**63:
            self.fail(f"'seed' must be from 0 to 2^63 - 1, found {seed}", "seed")

    def axis(self, name: str, rank: int) -> int:
        """An axis argument, made non-negative and stored back."""
        axis = self.normal_axis(self.number(name), rank, name)
        self.attributes[name] = axis
        return axis

    def normal_axis(self, axis: int, rank: int, name: str) -> int:
        """`axis` counted from the front."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is out of range for a tensor of rank {rank}", name)
        return axis % rank

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """A list of axes, made non-negative, checked for repeats and stored back; `None` is all."""
        value = self.attributes[name]
        if value is None:
            axes = tuple(range(rank))
        else:
            listed = as_tuple(value)
            axes = tuple(self.normal_axis(self.known(a), rank, name) for a in listed)
            if len(set(axes)) != len(axes):
                self.fail("an axis is given twice", name)
        self.attributes[name] = axes
        return axes

    def pair(self, name: str, count: int = 2, least: int = 1) -> tuple[Dim, ...]:
        """An `ints` argument as `count` sizes of at least `least`, stored back."""
        entry = self.attributes[name]
        values = as_tuple(entry) if isinstance(entry, tuple) else (entry,) * count
        if len(values) != count:
            self.fail(f"'{name}' needs {count} numbers, found {len(values)}", name)
        for value in values:
            if isinstance(value, int) and value < least:
                self.fail(f"'{name}' must be at least {least}, found {value}", name)
        self.attributes[name] = values
        return tuple(Dim.lift(v) if isinstance(v, int | Dim) else self.known(v) for v in values)

    def same(self, a: Dim, b: Dim) -> bool:
        """Whether two sizes agree."""
        return self.assumptions.equal(a, b)

    def same_shape(self, a: Sequence[Dim], b: Sequence[Dim]) -> bool:
        """Whether two shapes agree."""
        return shapes_equal(a, b, self.assumptions)

    def shaped(self, name: str, shape: Sequence[Dim], what: str = "") -> None:
        """Check that a float tensor has a shape, where it is given; `what` tells of the shape."""
        if name not in self.types:
            return
        tensor = self.floating(name)
        if not self.same_shape(tensor.shape, shape):
            wanted = ", ".join(map(str, shape))
            note = f" ({what})" if what else ""
            self.fail(f"needs '{name}' of shape [{wanted}]{note}, found {tensor}", name)


Rule = Callable[[RuleCall], Result]
Fold = Callable[..., int | float]


@dataclass(frozen=True)
class Builtin:
    """A built-in function.

    Attributes:
        name: as written in a program.
        group: the row of the table in the language reference.
        parameters: in order.
        rule: gives the result's type, checks and completes the arguments.
        doc: one sentence.
        fold: computes the result when every argument is a compile-time number, or `None`.
    """

    name: str
    group: str
    parameters: tuple[Parameter, ...]
    rule: Rule
    doc: str
    fold: Fold | None = None

    @property
    def signature(self) -> str:
        """As shown in messages and the reference: `softmax(x, axis=-1)`."""
        parts = [f"*{p}" if p.kind == "tensors" else str(p) for p in self.parameters]
        return f"{self.name}({', '.join(parts)})"


_PARAMETER = re.compile(r"(\*?)(\w+)(?:: (\S+))?(?: = (\S+))?")


Functions: TypeAlias = Mapping[str, Mapping[str, Rule]]
"""For each group its functions, by their signatures and what they are, in text: the rule of each.

In `"pad(x, padding: ints, value: float = 0.0): A border of one value."` a parameter without a kind
is a tensor, one with a `*` several. A string that is one of a few words has these as its kind, as
in `mode: deterministic|stochastic = deterministic`; `none` stands for absent.
"""


def builtins_of(functions: Functions, folds: Mapping[str, Fold]) -> Iterator[Builtin]:
    """The built-in functions of a table; `folds` compute some of them on compile-time numbers."""
    for group, entries in functions.items():
        for text, rule in entries.items():
            signature, _, doc = text.partition("): ")
            name, _, parameters = signature.partition("(")
            taken = tuple(map(_parameter, parameters.split(", ")))
            yield Builtin(name, group, taken, rule, doc, folds.get(name))


def _parameter(text: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    assert match is not None, text
    several, name, kind, default = match.groups()
    choices = tuple(kind.split("|")) if kind and "|" in kind else ()
    kind = "tensors" if several else "string" if choices else kind or "tensor"
    value: object = default
    if default is None:
        value = REQUIRED
    elif not choices:
        value = None if default == "none" else json.loads(default)
    return Parameter(name, cast("ParameterKind", kind), value, choices)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """An `ints` argument as a tuple."""
    return tuple(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else (value,)


def accumulator(a: str, b: str) -> str:
    """The element type of a sum of products: at least `int32` for integers and trits."""
    element = promote(a, b)
    if element in FLOATS:
        return element
    from ..trits import accumulator_bits  # and with it NumPy, which `check` does without

    return f"int{accumulator_bits(int(element.removeprefix('int')))}"
