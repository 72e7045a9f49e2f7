"""A compiled program as a callable on NumPy arrays.

Not here: where its code comes from (`loading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from ctypes import c_void_p, cast
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import TypeIs

from ...ir.arrays import Array
from ...ir.errors import BackendError, OptionError
from .abi.interface import (
    ALIGNMENT,
    Interface,
    TensorInterface,
)
from .abi.layouts import round_up
from .abi.sizes import free_in
from .addresses import address_of
from .batch_parts import batch_part, part_argument
from .bound import BoundProgram, check_bound
from .memory import Memory, aligned
from .threads import OURS, PARTS_EACH, WORTH_A_MEMBER, Crew

_MOST_PLANS = 256
"""Combinations of shapes for which a program remembers what to do."""
_ROWS_OF_A_PIECE = 4
"""Of a batch, at least where threads have several pieces: kernels read weights once for so many."""


@dataclass(frozen=True)
class Functions:
    """A program's functions, ready to be called.

    Attributes:
        forward, workspace_bytes: see `abi.interface`.
        arrays: `abi.interface.ARRAYS`, where there is one and array objects are as it needs.
        phase: `abi.phases.PHASE`, where there is one.
    """

    forward: Callable[..., None]
    workspace_bytes: Callable[..., int]
    arrays: Callable[[bytes], None] | None = None
    phase: Callable[..., None] | None = None


@dataclass(frozen=True)
class _Plan:
    """What a call with inputs of certain shapes does."""

    free: tuple[int, ...]
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    workspace: int
    shares: _Shares | _Phases | None


@dataclass(frozen=True)
class _Shares:
    """How several threads do a batch.

    Attributes:
        part: of `batch_part`.
        threads: at most.
        batch: rows.
        pieces: of the batch, of which each thread takes the next.
        each, workspace: bytes of workspace, for a member and for all.
    """

    part: Callable[..., None]
    threads: int
    batch: int
    pieces: int
    each: int
    workspace: int


@dataclass(frozen=True)
class _Phases:
    """How several threads do one sample, see `abi.phases`.

    Attributes:
        part: address of the function.
        threads: at most.
        things: of each phase, int64.
        workspace: bytes for all.
    """

    part: int
    threads: int
    things: Array
    workspace: int


class _Short(NamedTuple):
    """What a call with one input and one output does, in few instructions.

    Attributes:
        shape, dtype: of the output.
        workspace: bytes.
        batch: the one size.
        constants: their address.
        call: `abi.interface.ARRAYS`, where there is one.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    workspace: int
    batch: int
    constants: int
    call: Callable[[bytes], None] | None


class NativeProgram:
    """A compiled program; calls from several threads at once are safe.

    Attributes:
        interface: what it takes and gives.
        threads: most threads that a call uses.
        constants: what it reads, uint8; of a traced program the times of its last call too. Nothing
            where they are in the code.
    """

    def __init__(
        self,
        interface: Interface,
        functions: Functions,
        constants: Array | None,
        *,
        threads: int = 1,
        held: Mapping[str, Array] | None = None,
        crew: Crew = OURS,
    ) -> None:
        """Make the callable; `load_program` and `load_shared` do.

        Args:
            interface: of the program.
            functions: those of `abi.interface`.
            constants: uint8, as the program was compiled with; `None` where they are in the code.
            threads: most threads that a call uses; more than one only where rows of the batch are
                computed apart.
            held: the arrays of `Interface.held`.
            crew: whose threads help.

        Raises:
            OptionError: a wrong thread count.
        """
        if threads < 1:
            raise OptionError(f"threads must be at least 1, not {threads}")
        self.interface = interface
        self.threads = threads
        self._crew = crew
        tensors = [*interface.inputs, *interface.outputs]
        self._forward = functions.forward
        function: Any = functions.forward
        self._address = cast(function, c_void_p).value or 0
        self._workspace_bytes = functions.workspace_bytes
        self._arrays = functions.arrays
        phase: Any = functions.phase
        self._phase = 0 if phase is None else cast(phase, c_void_p).value or 0
        self._things = np.array(interface.phases, np.int64)
        self._fixed: tuple[int, ...] = ()
        self.constants = aligned(0)
        if constants is not None:
            self._keep(constants, held or {})
        self._dtypes = [dtype_named(tensor.dtype) for tensor in interface.inputs]
        self._output_dtypes = [dtype_named(tensor.dtype) for tensor in interface.outputs]
        self._strides = [
            _row_bytes(tensor, dtype)
            for tensor, dtype in zip(tensors, [*self._dtypes, *self._output_dtypes], strict=True)
        ] + [0] * len(self._fixed)
        self._plans: dict[tuple[tuple[int, ...], ...], _Plan] = {}
        self._short: dict[tuple[tuple[int, ...], np.dtype[Any]], _Short] = {}
        self._memory = Memory()
        self._packed = Struct(f"{len(tensors) + len(self._fixed) + 1 + len(interface.names)}q").pack

    def _keep(self, constants: Array, held: Mapping[str, Array]) -> None:
        """Have constants of its own, with the addresses of what is held among them."""
        self.constants = aligned(constants.size)
        self.constants[:] = constants.view(np.uint8).reshape(-1)
        self._fixed = (address_of(self.constants),)
        self._held = dict(held)
        for name, offset in self.interface.held:
            address = address_of(self._held[name])
            self.constants[offset : offset + 8].view(np.int64)[0] = address

    def holding(self, held: Callable[[str], Array]) -> NativeProgram:
        """The same code and workspace with other arrays.

        Args:
            held: see `load_program`.
        """
        other = copy(self)
        other._short = {}
        other._keep(self.constants, {name: held(name) for name, _ in self.interface.held})
        return other

    def __call__(self, *inputs: Array) -> Any:
        """Run the program: an array for a single output, else a list of them.

        Raises:
            BackendError: inputs of a wrong number, shape or dtype.
        """
        if len(inputs) == 1 and type(inputs[0]) is _NDARRAY:
            x = inputs[0]
            plan = self._short.get((x.shape, x.dtype))
            if plan is not None:
                shape, dtype, workspace, batch, constants, call = plan
                x = _contiguous(x)
                y = _empty(shape, dtype)
                memory = self._memory
                place = memory.address if memory.size >= workspace else memory.hold(workspace)
                if call is None:
                    self._forward(address_of(x), address_of(y), *self._fixed, place, batch)
                else:
                    call(_pack(id(x), id(y), constants, place, batch))
                return y
        outputs = self.run(inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the program; every output.

        Raises:
            BackendError: inputs of a wrong number, shape or dtype.
        """
        plan = self._planned(inputs)
        # What an address belongs to must outlive the call.
        held = [_contiguous(x) for x in inputs]
        outputs = self._outputs(plan)
        self._begin(held, outputs)
        held += outputs
        if plan.shares is not None:
            places = [address_of(array) for array in held]
            self._together(plan.shares, self._memory.of(plan.shares.workspace), places)
            return outputs
        rest = (*self._fixed, self._memory.of(plan.workspace), *plan.free)
        if self._arrays is None:
            self._forward(*[address_of(array) for array in held], *rest)
        else:
            self._arrays(self._packed(*map(id, held), *rest))
        return outputs

    def bind(self, *inputs: Array, out: Array | Sequence[Array] | None = None) -> BoundProgram:
        """The program over fixed arrays, all prepared: a callable without arguments.

        Each call runs the program on what the inputs then hold, and writes to the same outputs.

        Args:
            inputs: contiguous arrays; they are used in place.
            out: contiguous arrays for the outputs, or one for a single output; new ones when not
                given.

        Raises:
            BackendError: arrays of a wrong number, shape or dtype, that are not contiguous, or
                outputs that cannot be written or share memory with another array.
        """
        if out is None and self.interface.shared:
            raise BackendError("outputs begin with inputs, in their memory: give them as out")
        plan = self._planned(_several(inputs))
        outputs = self._outputs(plan) if out is None else _several(out)
        if [(y.shape, y.dtype) for y in outputs] != list(plan.outputs):
            raise BackendError(self._mismatch("gives", self.interface.outputs, outputs))
        check_bound(inputs, outputs, dict(self.interface.shared))
        tensors = [*inputs, *outputs]
        if plan.shares is not None:
            workspace = aligned(plan.shares.workspace)
            places = [address_of(array) for array in tensors]
            run = partial(self._together, plan.shares, address_of(workspace))
            return BoundProgram(inputs, outputs, run, places, (self, workspace))
        workspace = aligned(plan.workspace)
        rest = (*self._fixed, address_of(workspace), *plan.free)
        if self._arrays is None:
            arguments = (*[address_of(array) for array in tensors], *rest)
            return BoundProgram(inputs, outputs, self._spread, arguments, (self, workspace))
        packed = self._packed(*map(id, tensors), *rest)
        return BoundProgram(inputs, outputs, self._arrays, packed, (self, workspace))

    def _spread(self, arguments: tuple[int, ...]) -> None:
        self._forward(*arguments)

    def _begin(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Put inputs where outputs begin with them."""
        for output, source in self.interface.shared:
            first = inputs[source].reshape(-1)
            outputs[output].reshape(-1)[: first.size] = first

    def _outputs(self, plan: _Plan) -> list[Array]:
        return [np.empty(shape, dtype) for shape, dtype in plan.outputs]

    def _shorten(self, plan: _Plan, shape: tuple[int, ...]) -> None:
        """Remember a plan for the short way, if it can go it."""
        short = len(self._dtypes) == len(plan.outputs) == len(plan.free) == 1
        if short and plan.shares is None:
            (output,), constants = plan.outputs, self._fixed[0] if self._fixed else 0
            known = _Short(*output, plan.workspace, plan.free[0], constants, self._arrays)
            self._short[shape, self._dtypes[0]] = known

    def _together(self, shares: _Shares | _Phases, workspace: int, places: Sequence[int]) -> None:
        if isinstance(shares, _Phases):
            words = np.array([*places, *self._fixed, workspace, 1, 0], np.int64)
            address = address_of(words)
            where = address + words[:-1].nbytes
            if not self._crew.in_phases(shares.part, address, shares.threads, shares.things, where):
                self._forward(*places, *self._fixed, workspace, 1)
            return
        argument = part_argument(
            self._address,
            shares.batch,
            shares.pieces,
            (*places, *self._fixed),
            self._strides,
            (workspace, shares.each),
        )
        self._crew.together(shares.part, argument, shares.threads, (shares.pieces, 0))

    def _planned(self, inputs: Sequence[Array]) -> _Plan:
        """What a call does with these inputs."""
        try:
            shapes = tuple([x.shape for x in inputs])
        except AttributeError:
            raise BackendError("a compiled program takes NumPy arrays") from None
        plan = self._plans.get(shapes)
        if plan is None:
            plan = self._plan(inputs)
        if [x.dtype for x in inputs] != self._dtypes:
            raise BackendError(self._refusal(inputs))
        return plan

    def _plan(self, inputs: Sequence[Array]) -> _Plan:
        interface, given = self.interface, [x.shape for x in inputs]
        free = free_in([tensor.shape for tensor in interface.inputs], given, len(interface.names))
        wanted = [tensor.sizes(*free) for tensor in interface.inputs]
        if given != wanted:
            raise BackendError(self._refusal(inputs))
        unmet = interface.unmet(free)
        if unmet is not None:
            raise BackendError(f"{self._refusal(inputs)}; {unmet}")
        shapes = [tensor.sizes(*free) for tensor in interface.outputs]
        alone = len(free) == 1
        plan = _Plan(
            free,
            tuple(zip(shapes, self._output_dtypes, strict=True)),
            self._workspace_bytes(*free),
            self._shares(free[0]) or self._phases(free[0]) if alone else None,
        )
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
            self._short.clear()
        self._plans[tuple(wanted)] = plan
        self._shorten(plan, wanted[0] if wanted else ())
        return plan

    def _shares(self, batch: int) -> _Shares | None:
        """How a batch is shared out, if it is."""
        threads = min(self.threads, batch, batch * self.interface.work // WORTH_A_MEMBER)
        if not self.interface.row_wise or threads < 2:
            return None
        try:
            part = batch_part(len(self._strides))
        except BackendError:
            return None
        pieces = max(threads, min(batch // _ROWS_OF_A_PIECE, threads * PARTS_EACH))
        each = round_up(self._workspace_bytes(-(-batch // pieces)), ALIGNMENT)
        whole = max(threads * each, self._workspace_bytes(batch))
        return _Shares(part, threads, batch, pieces, each, whole)

    def _phases(self, batch: int) -> _Phases | None:
        """How one sample is shared out, if it is."""
        threads = min(self.threads, self.interface.work // WORTH_A_MEMBER)
        if not self._phase or batch != 1 or threads < 2:
            return None
        workspace = self._workspace_bytes(1) + (threads - 1) * self.interface.apart
        return _Phases(self._phase, threads, self._things, workspace)

    def _refusal(self, inputs: Sequence[Array]) -> str:
        return self._mismatch("takes", self.interface.inputs, inputs)

    def _mismatch(
        self, verb: str, tensors: Sequence[TensorInterface], arrays: Sequence[Array]
    ) -> str:
        """What a program takes or gives, and what was given instead."""
        names = self.interface.names
        wanted = ", ".join(f"{t.name}: {t.dtype} {t.shown(names)}" for t in tensors)
        shown = ", ".join(f"{x.dtype} {list(x.shape)}" for x in arrays)
        return f"the program {verb} {wanted or 'nothing'}; got {shown or 'none'}"


def _several(results: Array | Sequence[Array]) -> list[Array]:
    arrays = [results] if _is_array(results) else list(results)
    if not all(map(_is_array, arrays)):
        raise BackendError("a compiled program takes NumPy arrays")
    return arrays


def _is_array(value: object) -> TypeIs[Array]:
    return isinstance(value, np.ndarray)


def dtype_named(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _row_bytes(tensor: TensorInterface, dtype: np.dtype[Any]) -> int:
    """Bytes of one row of the batch; 0 for a tensor that all rows share."""
    return (tensor.rows or 0) * dtype.itemsize


_NDARRAY, _empty, _contiguous = np.ndarray, np.empty, np.ascontiguousarray
_pack = Struct("5q").pack
