"""The C of a planned program: constants, memory, a function for each kind of loops, the calls.

Steps that are alike, but for where their tensors stand, share a function. Not here: the loops
themselves (`nests`), headers and other files (`files`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...ir.arrays import Array
from ..to_native.program import arena
from ..to_native.program.nests import Access, Nest
from ..to_native.program.program import Program, Step
from ..to_native.program.repetition import LoopStep
from ..to_native.program.structured import NestStep
from ..to_native.program.views import Buffer, View, holder
from .expressions import c_type, literal
from .library import Library
from .nests import NestWriter, number, touched
from .products import IMAGE, PLACE, FiredStep, ProductStep, Window
from .steps import SumStep

_ALIGNMENT = 8
"""Bytes: what the widest element needs."""
_NARROW = ("int8", "uint8", "int16", "uint16", "int32")
_LINE = 16
"""Numbers on a line of constants."""


@dataclass
class Source:
    """Writes the parts of one file.

    Attributes:
        program: all its sizes are known.
        inputs, outputs: names of the arguments, with the C types that callers see.
        constants: bytes of each constant, by its name.
        memory: bytes of the static memory.
    """

    program: Program
    inputs: Sequence[str]
    outputs: Sequence[str]
    library: Library = field(default_factory=Library)
    constants: dict[str, int] = field(default_factory=dict[str, int])
    memory: int = 0
    _names: dict[Buffer, str] = field(default_factory=dict[Buffer, str])
    _types: dict[Buffer, str] = field(default_factory=dict[Buffer, str])
    _times: dict[Buffer, str] = field(default_factory=dict[Buffer, str])
    _functions: dict[object, tuple[str, list[str]]] = field(
        default_factory=dict[object, "tuple[str, list[str]]"]
    )

    def write(self) -> tuple[str, list[str]]:
        """What stands before the function of the program, and its statements."""
        memory = self._memory()
        constants = self._constants()
        calls = self._run(self.program.steps, 1)
        code = ["\n".join(lines) for _, lines in self._functions.values()]
        self.library.need_all("\n".join([*code, *calls]))
        return "\n\n".join(filter(None, [constants, memory, self.library.text(), *code])), calls

    # Memory

    def _memory(self) -> str:
        """Temporary buffers, those that are not needed at once in the same place."""
        lifetimes = arena.lifetimes_of(self.program.steps)
        self.memory = number(arena.plan(lifetimes, _ALIGNMENT))
        lines: list[str] = []
        for life in lifetimes:
            buffer = life.buffer
            name = self._names[buffer] = f"t{len(lines)}"
            offset = number(buffer.offset)
            before = f"uint8_t before[{offset}]; " if offset else ""
            kind, count = self._type(buffer), max(number(buffer.count), 1)
            lines.append(f"    struct {{ {before}{kind} data[{count}]; }} {name};")
        if not lines:
            return ""
        return "\n".join(
            [
                "/* What is needed at different times shares its place. */",
                "static union {",
                *lines,
                "} memory;",
            ]
        )

    def _constants(self) -> str:
        """The constants that steps read."""
        texts: list[str] = []
        for buffer in _constants_of(self.program.steps):
            content = buffer.content
            assert content is not None
            values = _narrowed(content)
            name = self._names[buffer] = f"c{len(self.constants)}"
            self.constants[name] = values.nbytes
            kind = self._types[buffer] = _type_of(values, c_type(buffer.element))
            texts.append(_array(name, kind, values))
        return "\n\n".join(texts)

    def _type(self, buffer: Buffer) -> str:
        if buffer.run is not None:
            buffer = buffer.run.buffer
        return self._types.get(buffer) or c_type(buffer.element)

    def _stored(self, view: View) -> str:
        return self._type(view.buffer)

    def _pointer(self, view: View, type: str | None = None) -> str:
        """Where the first element of a view stands; as another type of the same width."""
        buffer = view.buffer
        offset = number(view.offset)
        match buffer.place:
            case "input":
                base = f"(const {self._type(buffer)} *){self.inputs[buffer.number]}"
            case "output":
                base = f"({self._type(buffer)} *){self.outputs[buffer.number]}"
            case "constant":
                base = self._names[buffer]
            case "step":
                assert buffer.run is not None
                stride = number(buffer.run.strides[0])
                base = f"{self._pointer(buffer.run)} + {self._times[buffer]} * {stride}"
            case _:
                base = f"memory.{self._names[buffer]}.data"
        if type is not None and type != self._type(buffer):
            base = f"(const {type} *)({base})"
        return f"{base} + {offset}" if offset else base

    # Steps

    def _run(self, steps: Sequence[Step], depth: int) -> list[str]:
        lines: list[str] = []
        indent = "    " * depth
        for step in steps:
            if isinstance(step, LoopStep):
                time = f"step{depth}"
                self._times.update(dict.fromkeys(step.slices, time))
                count = number(step.count)
                lines.append(f"{indent}for (int32_t {time} = 0; {time} < {count}; {time}++) {{")
                lines += [*self._run(step.repeated, depth + 1), f"{indent}}}"]
            elif isinstance(step, NestStep):
                lines.append(indent + self._nest_call(step))
            elif isinstance(step, SumStep):
                lines.append(indent + self._sum_call(step))
            elif isinstance(step, ProductStep) and step.window is not None:
                lines.append(indent + self._window_call(step, step.window))
            elif isinstance(step, ProductStep | FiredStep):
                lines += [indent + line for line in self._row_calls(step)]
        return lines

    def _row_calls(self, step: ProductStep | FiredStep) -> list[str]:
        """A product of one row, or a loop over rows."""
        ins, outs = number(step.x.sizes[-1]), number(step.y.sizes[-1])
        rows = number(step.y.buffer.count) // outs
        several = rows > 1
        type = step.kernel.input if isinstance(step, ProductStep) else None
        x, y = self._pointer(step.x, type), self._pointer(step.y)
        if several:
            x, y = f"{x} + row * {ins}", f"{y} + row * {outs}"
        weights = self._pointer(step.weights)
        if isinstance(step, ProductStep):
            call = step.kernel.call(self.library, weights, x, self._pointer(step.table), y)
        else:
            tables = [self._pointer(view) for view in step.tables]
            call = step.call(self.library, x, y, weights, tables)
        if not several:
            return [call]
        return [f"for (int32_t row = 0; row < {rows}; row++) {{", f"    {call}", "}"]

    def _function(self, stem: str, parameters: Sequence[str], body: Sequence[str]) -> str:
        """The name of a function with that body."""
        key = (*parameters, *body)
        if key not in self._functions:
            name = f"{stem}{len(self._functions)}"
            head = f"static void {name}({', '.join(parameters)})"
            self._functions[key] = name, [head, "{", *body, "}"]
        return self._functions[key][0]

    def _nest_call(self, step: NestStep) -> str:
        (places, tables), parameters = self._parameters(step.nest)
        body = NestWriter(step.nest, places, tables, stored=self._stored).write()
        name = self._function("loops", parameters, body)
        return f"{name}({', '.join(self._arguments(places, tables))});"

    def _sum_call(self, step: SumStep) -> str:
        """Loops with reductions, and what follows each sum."""
        sums, nest = step.sums.nest, step.behind.step.nest
        (places, tables), parameters = self._parameters(sums, sums.writes)
        (more, others), added = self._parameters(nest, [step.read], len(parameters))

        def behind(name: str) -> list[str]:
            scalars = {step.read: name}
            return NestWriter(nest, more, others, step.behind.fixed, scalars, "then_").write()

        body = NestWriter(sums, places, tables, stored=self._stored).write(behind)
        name = self._function("sums", [*parameters, *added], body)
        arguments = [*self._arguments(places, tables), *self._arguments(more, others)]
        return f"{name}({', '.join(arguments)});"

    def _arguments(self, places: Mapping[Access, str], tables: Mapping[View, str]) -> list[str]:
        return [*(self._pointer(a.first) for a in places), *map(self._pointer, tables)]

    def _parameters(
        self, nest: Nest, without: Collection[Access] = (), first: int = 0
    ) -> tuple[tuple[dict[Access, str], dict[View, str]], list[str]]:
        """Names of pointers for what a nest touches, and their declarations."""
        accesses, tables = touched(nest)
        accesses = [a for a in accesses if a not in without]
        places = {a: f"p{first + n}" for n, a in enumerate(accesses)}
        elements = {view: f"p{first + len(accesses) + n}" for n, view in enumerate(tables)}
        written = set(nest.writes)
        parameters = [
            f"{'' if a in written else 'const '}{self._type(a.view.buffer)} *{name}"
            for a, name in places.items()
        ]
        parameters += [f"const {self._type(v.buffer)} *{name}" for v, name in elements.items()]
        return (places, elements), parameters

    def _window_call(self, step: ProductStep, window: Window) -> str:
        """A convolution: a function of its own."""
        parameters, arguments, behind = self._behind(step)
        kernel, library = step.kernel, self.library
        input = kernel.input
        batch, groups, channels, height, width = window.image
        places, columns = window.places[0] * window.places[1], window.places[1]
        down, across = window.strides
        plane = channels * height * width
        gather = library.need("window_INPUT", INPUT=input)
        shape = ", ".join(map(str, (channels, height, width, *window.taps, *window.dilation)))
        size = number(step.weights.buffer.count) // groups
        outs = groups * kernel.outs
        at = [f"{IMAGE} * {groups * plane}"] if batch > 1 else []
        own = ["group", f" * {plane}", f" * {size}", f" * {kernel.outs}"]
        image, weights, after = "x", "weights", ""
        if groups > 1:
            at.append(own[0] + own[1])
            weights, after = f"weights + {own[0]}{own[2]}", f" + {own[0]}{own[3]}"
        image = " + ".join([image, *at])
        windows = ["first", "last"][: kernel.places]
        inner = [
            f"{gather}({image}, patch{f' + {n * kernel.ins}' if n else ''}, shape, "
            f"{name} / {columns} * {down} - {window.before[0]}, "
            f"{name} % {columns} * {across} - {window.before[1]});"
            for n, name in enumerate(windows)
        ]
        targets = [f"all{after}", f"all + {outs}{after}"][: kernel.places]
        inner.append(kernel.call(library, weights, "patch", "table", *targets))
        last = f"first + 1 < {places} ? first + 1 : first" if kernel.places > 1 else "first"
        lines = [
            f"for (int32_t first = 0; first < {places}; first += {kernel.places}) {{",
            f"    const int32_t last = {last};",
            *_indented(_loop("group", groups, inner)),
            f"    for (int32_t {PLACE} = first; {PLACE} <= last; {PLACE}++) {{",
            f"        const {self._type(step.y.buffer)} *const sums = all + "
            f"({PLACE} - first) * {outs};",
            *_indented(behind),
            "    }",
            "}",
        ]
        lines = _indented(_loop(IMAGE, batch, lines))
        head = [
            f"const {input} *x",
            "const uint8_t *weights",
            f"{input} *patch",
            f"{c_type(kernel.table)} *table",
            f"{self._type(step.y.buffer)} *all",
            *parameters,
        ]
        body = [f"    static const int32_t shape[7] = {{{shape}}};", *lines]
        name = self._function("convolution", head, body)
        patch = self._pointer(window.patch)
        patch = patch if self._type(window.patch.buffer) == input else f"({input} *){patch}"
        own = [
            self._pointer(step.x, input),
            self._pointer(step.weights),
            patch,
            self._pointer(step.table),
            self._pointer(step.y),
        ]
        return f"{name}({', '.join([*own, *arguments])});"

    def _behind(self, step: ProductStep) -> tuple[list[str], list[str], list[str]]:
        """What is done with the sums of a place: parameters, arguments, lines."""
        assert step.behind is not None
        nest = step.behind.step.nest
        sums = {a: "sums" for a in nest.reads.values() if a.view.buffer is step.y.buffer}
        (places, tables), parameters = self._parameters(nest, sums)
        lines = NestWriter(nest, {**places, **sums}, tables, step.behind.fixed).write()
        return parameters, self._arguments(places, tables), lines


def _indented(lines: Sequence[str]) -> list[str]:
    return ["    " + line for line in lines]


def _loop(name: str, count: int, lines: Sequence[str]) -> list[str]:
    """Lines in a loop, or as they are where there is one turn."""
    if count == 1:
        return [*lines]
    head = f"for (int32_t {name} = 0; {name} < {count}; {name}++) {{"
    return [head, *_indented(lines), "}"]


def _constants_of(steps: Sequence[Step]) -> list[Buffer]:
    """The constants that steps read from memory, in their order."""
    used: dict[Buffer, None] = {}
    for step in steps:
        nests: list[NestStep] = []
        views: list[View] = []
        match step:
            case LoopStep():
                used.update(dict.fromkeys(_constants_of(step.repeated)))
            case NestStep():
                nests = [step]
            case SumStep():
                nests = [step.sums, step.behind.step]
            case ProductStep():
                views = [step.x, step.weights]
                nests = [] if step.behind is None else [step.behind.step]
            case _:
                views = [*step.reads]
        for inner in nests:
            accesses, tables = touched(inner.nest)
            views += [*(a.view for a in accesses), *tables]
        used.update(dict.fromkeys(map(holder, views)))
    return [buffer for buffer in used if buffer.place == "constant"]


def _narrowed(values: Array) -> Array:
    """Integers in the smallest type that holds them all."""
    if values.dtype.kind != "i" or values.size == 0:
        return values
    low, high = int(values.min()), int(values.max())
    for name in _NARROW:
        kind = np.iinfo(name)
        if kind.bits < 8 * values.itemsize and kind.min <= low and high <= kind.max:
            return values.astype(name)
    return values


def _type_of(values: Array, default: str) -> str:
    return f"{values.dtype.name}_t" if values.dtype.kind in "iu" else default


def _array(name: str, type: str, values: Array) -> str:
    """A constant array."""
    flat = values.reshape(-1)
    if type == "uint16_t" and flat.dtype.itemsize == 2:
        flat = flat.view(np.uint16)
    is_wide = type in ("float", "double", "int32_t", "int64_t")
    words = [literal(x, type) if is_wide else str(int(x)) for x in flat.tolist()] or ["0"]
    lines = [", ".join(words[i : i + _LINE]) for i in range(0, len(words), _LINE)]
    body = ",\n    ".join(lines)
    return f"static const {type} {name}[{len(words)}] = {{\n    {body}}};"
