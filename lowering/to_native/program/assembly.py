"""The functions of a planned program: one for each kind of step, and the one that calls them.

Steps that are alike, but for where their tensors stand, share a function. Not here: what steps do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import llvm
from xdsl.dialects.builtin import DictionaryAttr, StringAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, SSAValue

from ....runtime.native.abi.interface import (
    ALIGNMENT,
    CONSTANTS,
    FORWARD,
    KEPT,
    WORKSPACE_BYTES,
)
from ....runtime.native.abi.phases import PHASE
from ....runtime.native.abi.sizes import ZERO, Size
from ..kept import IS_FILLED, NOTE_FILLED, WORD
from ..kernels.code import POINTER, Code
from ..linalg.signature import ARGUMENT_ATTRIBUTE
from . import arena
from .dot_code import DotWriter
from .dots import DotStep
from .loops import LoopWriter, Share
from .nests import Access, Nest, neighbours, shape_of
from .phases import Phase, phases_of
from .program import KernelStep, Program, Step
from .reductions import write_reduction
from .repetition import LoopStep
from .structured import NestStep
from .trace import times_of
from .transform_code import TransformStep, TransformWriter
from .views import Buffer, View, holder, stored
from .writer import Writer


class Assembly:
    """Writes the functions of one program."""

    def __init__(
        self,
        program: Program,
        outputs: Sequence[View],
        counter: str | None = None,
        *,
        together: bool = False,
    ) -> None:
        """Take a program that is planned.

        Args:
            program, outputs: what it does, and where its results stand.
            counter: the intrinsic with which it is to time its steps, see `trace`.
            together: whether threads shall share out one sample.
        """
        self.program = program
        self.outputs = outputs
        self.times = None if counter is None else times_of(len(program.steps))
        self.workspace = ZERO
        self._counter = counter
        self.functions: list[llvm.FuncOp] = []
        self._names: dict[object, str] = {}
        self.phases = phases_of(program) if together and program.free == 1 else []
        self.kept = 0
        """Bytes of memory that the first call fills."""
        self.apart = 0
        """Bytes of workspace that each thread has for itself."""
        self._words: dict[LoopStep, int] = {}
        self._private: set[Buffer] = set()
        self._shared = {phase.nest: phase.loop for phase in self.phases if phase.nest}

    def write(self) -> tuple[list[llvm.FuncOp], NDArray[np.uint8]]:
        """All functions, and the constants that they read."""
        constants = self._place_constants()
        self._place_workspace()
        self._place_kept()
        main = self._main()
        size = _workspace_function(self.workspace, self.program.free)
        phases = self._phases() if self.phases else []
        return [*self.functions, main, size, *phases], constants

    def _place_workspace(self) -> None:
        """The memory of the program, and behind it what each thread has for itself."""
        own: list[arena.Lifetime] = []
        apart = ZERO
        for phase in self.phases:
            lives = self._lives_apart(phase)
            apart = apart.bound(arena.plan(lives))
            own += lives
        self.apart = apart.at(1)
        self._private = {life.buffer for life in own}
        lives = arena.lifetimes_of(self.program.steps)
        shared = arena.plan([x for x in lives if x.buffer not in self._private])
        for buffer in self._private:
            buffer.offset = shared + buffer.offset
        self.workspace = shared + apart

    def _lives_apart(self, phase: Phase) -> list[arena.Lifetime]:
        """The buffers of which each thread has its own."""
        if phase.kernel is not None and phase.kernel.preparation is None:
            scratch = phase.kernel.scratch
            return [x for x in arena.lifetimes_of([phase.kernel]) if x.buffer is scratch]
        if phase.turns is None:
            return []
        written = {holder(v) for step in phase.turns.repeated for v in step.writes}
        outside = {
            holder(v)
            for step in self.program.steps
            for v in (*step.reads, *step.writes)
            if step is not phase.turns and not _holds(step, phase.turns)
        }
        lives = arena.lifetimes_of(phase.turns.repeated)
        return [x for x in lives if x.buffer in written - outside]

    def _place_kept(self) -> None:
        """The memory that is kept: a word for each step that fills some, then what it fills."""
        fills = [s for s in self.program.steps if isinstance(s, LoopStep) and s.once]
        self._words = {step: WORD * number for number, step in enumerate(fills)}
        end = WORD * len(fills)
        for buffer in {view.buffer: None for step in fills for view in step.writes}:
            if buffer.place == "kept":
                end = -(-end // ALIGNMENT) * ALIGNMENT
                buffer.offset = Size.of(end)
                end += buffer.size.at(0)
        self.kept = end

    def _place_constants(self) -> NDArray[np.uint8]:
        """Constants that steps use, one after the other."""
        used: dict[Buffer, None] = {}
        for step in self.program.steps:
            for view in step.reads:
                buffer = view.buffer if view.buffer.table is None else view.buffer.table.buffer
                if buffer.place == "constant":
                    used[buffer] = None
        if self.times is not None:
            used[self.times.buffer] = None
        end = 0
        # Single numbers need no line of a cache each.
        for buffer in sorted(used, key=lambda buffer: -_alignment(buffer)):
            end = -(-end // _alignment(buffer)) * _alignment(buffer)
            buffer.offset = Size.of(end)
            end += buffer.size.at(0)
        blob = np.zeros(-(-end // ALIGNMENT) * ALIGNMENT, np.uint8)
        for buffer in used:
            assert buffer.content is not None
            content = np.frombuffer(buffer.content.tobytes(), np.uint8)
            start = buffer.offset.at(0)
            blob[start : start + content.size] = content
        return blob

    def _main(self) -> llvm.FuncOp:
        function = self.program.function
        inputs, outputs = len(function.args), len(self.outputs)
        attributes: list[Mapping[str, Attribute]] = []
        known = function.arg_attrs.data if function.arg_attrs is not None else ()
        for number in range(inputs):
            attributes.append(dict(known[number].data) if number < len(known) else {})
        attributes += [_output_attributes(function.res_attrs, n) for n in range(outputs)]
        attributes += [{ARGUMENT_ATTRIBUTE: StringAttr(CONSTANTS)}, {}]

        free = self.program.free
        pointers = [POINTER] * (inputs + outputs + 2)
        writer = Writer(FORWARD, pointers, free, location=function.location)
        address = _Addresses(writer, writer.arguments[:-free], inputs)
        self._note_time(writer, address, 0)
        for number, step in enumerate(self.program.steps, start=1):
            self._run(writer, address, [step])
            self._note_time(writer, address, number)
        return writer.finish(linkage="external", attributes=attributes)

    def _phases(self) -> list[llvm.FuncOp]:
        """`abi.phases.PHASE`, and a function for each phase."""
        pointers = len(self.program.function.args) + len(self.outputs) + 2
        functions = [self._phase(n, phase, pointers) for n, phase in enumerate(self.phases)]
        code = Code(PHASE, [POINTER, *[i64] * 4])
        memory, _, first, end, member = code.arguments
        values = [code.load(code.at(memory, 8 * n), POINTER) for n in range(pointers)]
        batch, number = (code.load(code.at(memory, 8 * (pointers + n)), i64) for n in range(2))
        for n in code.cases(number, range(len(functions))):
            code.call(functions[n].sym_name.data, *values, first, end, member, batch)
        return [*functions, code.finish()]

    def _phase(self, number: int, phase: Phase, pointers: int) -> llvm.FuncOp:
        """Some things of a phase, or all of its steps."""
        writer = Writer(f"phase_{number}", [POINTER] * pointers + [i64] * 3, 1)
        *places, first, end, member, _ = writer.arguments
        address = _Addresses(writer, places, len(self.program.function.args))
        address.private = dict.fromkeys(self._private, writer.mul(member, self.apart))
        for step, turns in phase.steps:
            address.times = {buffer: writer.constant(turn) for buffer, turn in turns.items()}
            if phase.nest is not None:
                self._call_nest(writer, address, phase.nest, (first, end))
            elif phase.kernel is not None:
                phase.kernel.compute(writer, address, (first, end))
            elif phase.turns is not None:
                with writer.loop(first, end, 1, ()) as turn:
                    address.times.update(dict.fromkeys(phase.turns.slices, turn.index))
                    self._run(writer, address, phase.turns.repeated)
            else:
                self._run(writer, address, [step])
        return writer.finish()

    def _note_time(self, writer: Writer, address: Callable[[View], SSAValue], number: int) -> None:
        if self.times is not None and self._counter is not None:
            now = writer.intrinsic(self._counter, [], i64)
            writer.store(now, writer.at(address(self.times), number, i64))

    def _run(self, writer: Writer, address: _Addresses, steps: Sequence[Step]) -> None:
        for step in steps:
            writer.location = step.location
            if isinstance(step, KernelStep):
                step.call(writer, address)
            elif isinstance(step, NestStep):
                self._call_nest(writer, address, step)
            elif isinstance(step, LoopStep):
                self._repeat(writer, address, step)

    def _repeat(self, writer: Writer, address: _Addresses, step: LoopStep) -> None:
        """A loop around the steps that are repeated."""
        if step.once:
            word = writer.at(writer.address_of(KEPT), self._words[step])
            with writer.when(writer.icmp("eq", writer.ask(IS_FILLED, i32, word), 0)):
                self._run(writer, address, step.repeated)
                writer.call(NOTE_FILLED, word)
            return
        with writer.loop(0, writer.size(step.count), 1, ()) as turn:
            address.times.update(dict.fromkeys(step.slices, turn.index))
            self._run(writer, address, step.repeated)

    def _call_nest(
        self,
        writer: Writer,
        address: Callable[[View], SSAValue],
        step: NestStep,
        bounds: tuple[SSAValue, SSAValue] | None = None,
    ) -> None:
        nest, shared = step.nest, self._shared.get(step)
        accesses = _apart(nest)
        tables = list(dict.fromkeys(nest.views()))
        key = (shape_of(nest), step.plan, step.kind, shared)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"loops_{len(self._names)}"
            self.functions.append(self._nest(name, step))
        places = [address(a.first) for a in accesses] + [address(view) for view in tables]
        if shared is not None:
            places += _all_things(writer, step, shared) if bounds is None else bounds
        writer.call(name, *places, *writer.free)

    def _nest(self, name: str, step: NestStep) -> llvm.FuncOp:
        """The function of a nest: it is told where its operands stand."""
        nest = step.nest
        accesses, near = _apart(nest), neighbours(nest.accesses)
        written = {near[a][0] for a in nest.writes}
        tables = list(dict.fromkeys(nest.views()))
        operands, shared = len(accesses) + len(tables), self._shared.get(step)
        writer = Writer(
            name,
            [POINTER] * operands + [i64, i64] * (shared is not None),
            self.program.free,
            features=self.program.recipe.features,
            location=step.location,
        )
        pointers = dict(zip(accesses, writer.arguments, strict=False))
        places = dict(zip(tables, writer.arguments[len(accesses) : operands], strict=True))
        share = None if shared is None else Share(shared, *writer.arguments[-3:-1])
        if isinstance(step, DotStep):
            DotWriter(writer, step, self.program.recipe, pointers, places, share).write()
        elif isinstance(step, TransformStep):
            TransformWriter(writer, step, pointers, places, share).write()
        else:
            LoopWriter(writer, nest, step.plan, pointers, places, write_reduction, share).write()
        attributes = [{"llvm.noalias": UnitAttr()} if a in written else {} for a in accesses]
        return writer.finish(attributes=attributes)


def _apart(nest: Nest) -> list[Access]:
    """The operands whose addresses a nest is told: one of those that stand beside each other."""
    return list(dict.fromkeys(first for first, _ in neighbours(nest.accesses).values()))


def _alignment(buffer: Buffer) -> int:
    """Of a constant: a power of two that its bytes fill, up to that of memory."""
    return min(1 << (max(buffer.size.at(0), 1) - 1).bit_length(), ALIGNMENT)


def _holds(step: Step, loop: LoopStep) -> bool:
    """Whether a step is a loop around another one."""
    return isinstance(step, LoopStep) and any(s is loop or _holds(s, loop) for s in step.repeated)


def _all_things(writer: Writer, step: NestStep, loop: int) -> tuple[SSAValue, SSAValue]:
    """The bounds of all things of a loop, for any batch."""
    each = step.plan.parallel[loop]
    count = writer.add(writer.size(step.nest.sizes[loop]), each - 1)
    return writer.constant(0), writer.udiv(count, each)


class _Addresses:
    """The addresses of views in the main function."""

    def __init__(self, writer: Writer, arguments: Sequence[SSAValue], inputs: int) -> None:
        self._writer = writer
        self._arguments = arguments
        self._inputs = inputs
        self.times: dict[Buffer, SSAValue] = {}
        """For the steps that loops are at, their numbers."""
        self.private: dict[Buffer, SSAValue] = {}
        """How many bytes further a thread has its own of some buffers."""

    def __call__(self, view: View) -> SSAValue:
        """Where the first element of a view stands."""
        writer, buffer = self._writer, view.buffer
        base = self.base(buffer)
        if view.offset == ZERO:
            return base
        return writer.at(base, writer.size(view.offset), stored(buffer.element))

    def base(self, buffer: Buffer) -> SSAValue:
        """Where a buffer starts."""
        writer, arguments = self._writer, self._arguments
        if buffer.place == "input":
            return arguments[buffer.number]
        if buffer.place == "output":
            return arguments[self._inputs + buffer.number]
        if buffer.table is not None:
            return writer.load(self(buffer.table), POINTER)
        if buffer.run is not None:
            start = self(buffer.run)
            return writer.move(
                start, [(self.times[buffer], buffer.run.strides[0])], stored(buffer.element)
            )
        if buffer.place == "kept":
            base = writer.address_of(KEPT)
        else:
            base = arguments[-2] if buffer.place == "constant" else arguments[-1]
        if buffer in self.private:
            base = writer.at(base, self.private[buffer])
        return base if buffer.offset == ZERO else writer.at(base, writer.size(buffer.offset))


def _output_attributes(attributes: Attribute | None, number: int) -> Mapping[str, Attribute]:
    content = getattr(attributes, "data", ())
    if number >= len(content) or not isinstance(content[number], DictionaryAttr):
        return {}
    return dict(content[number].data)


def _workspace_function(size: Size, free: int) -> llvm.FuncOp:
    """`forward_workspace_bytes`."""
    writer = Writer(WORKSPACE_BYTES, [], free)
    return writer.finish(writer.size(size), linkage="external")
