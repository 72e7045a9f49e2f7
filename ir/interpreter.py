"""Entry of the reference interpreter: runs one function of a module, op by op.

What an op computes is no business of this file; `dialects.interpret` brings the rules of our
dialects, as functions of xDSL's interpreter. Values are freed after their last use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_callable,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.traits import SymbolTable

from .errors import TritonError, UnsupportedError
from .locations import error_at, location_text

Observer = Callable[[Operation, PythonValues, PythonValues], PythonValues | None]
"""Called after each op of a run with the op, its operands and its results; what it gives, if it
gives anything, stands for the results from there on."""


class ReferenceInterpreter(Interpreter):
    """xDSL's interpreter for functions of one block, with located one-line errors.

    Attributes:
        observer: sees each op that was run, but neither calls nor what stands in regions.
    """

    observer: Observer | None = None

    def run_ssacfg_region(
        self, region: Region, args: PythonValues, name: str = "unknown"
    ) -> PythonValues:
        block = region.block
        remaining = Counter[SSAValue](operand for op in block.ops for operand in op.operands)
        values = dict[SSAValue, Any](zip(block.args, args, strict=True))
        for op in block.ops:
            inputs = tuple(values[operand] for operand in op.operands)
            for operand in op.operands:
                remaining[operand] -= 1
                if not remaining[operand]:
                    del values[operand]
            result = self._run_located(op, inputs)
            if isinstance(result, ReturnedValues):
                return result.values
            if self.observer is not None and not isinstance(op, CallOp):
                seen = self.observer(op, inputs, result)
                result = result if seen is None else seen
            values.update(zip(op.results, result, strict=True))
        raise TritonError(f"function '{name}' does not return")

    def _run_located(self, op: Operation, inputs: PythonValues) -> PythonValues | ReturnedValues:
        try:
            result = self._run_op(op, inputs)
        except RecursionError:
            raise TritonError(error_at(op, "functions call each other too deeply")) from None
        except TritonError as error:
            # The op inside a called function has said where it is.
            message = str(error) if isinstance(op, CallOp) else error_at(op, str(error))
            raise type(error)(message) from None
        except MemoryError as error:
            raise TritonError(error_at(op, f"is out of memory: {error}".rstrip(": "))) from None
        except Exception as error:
            raise TritonError(error_at(op, str(error) or type(error).__name__)) from None
        if isinstance(result.terminator_value, ReturnedValues):
            return result.terminator_value
        return result.values


@register_impls
class _Functions(InterpreterFunctions):
    """Calls and returns.

    xDSL has the same, in a package that loads the interpreters of all its dialects.
    """

    @impl_terminator(ReturnOp)
    def run_return(
        self, interpreter: Interpreter, op: ReturnOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        """The values that the function gives."""
        return ReturnedValues(args), ()

    @impl(CallOp)
    def run_call(self, interpreter: Interpreter, op: CallOp, args: PythonValues) -> PythonValues:
        """What the callee gives."""
        return interpreter.call_op(op.callee, args)

    @impl_callable(FuncOp)
    def call_func(self, interpreter: Interpreter, op: FuncOp, args: PythonValues) -> PythonValues:
        """Run the body."""
        return interpreter.run_ssacfg_region(op.body, args, op.sym_name.data)


def entry_function(module: ModuleOp, name: str) -> FuncOp:
    """The function `name` of a module; it must have a body.

    Raises:
        TritonError: there is none; the message lists those that exist.
    """
    symbol = SymbolTable.lookup_symbol(module, name)
    if not isinstance(symbol, FuncOp):
        names = ", ".join(f"'{f.sym_name.data}'" for f in module.ops if isinstance(f, FuncOp))
        raise TritonError(f"the module has no function '{name}'; it has {names or 'none'}")
    if symbol.is_declaration:
        raise TritonError(error_at(symbol, f"function '{name}' is declared but has no body"))
    return symbol


def check_supported(
    module: ModuleOp, function: FuncOp, supported: Iterable[type[Operation]]
) -> None:
    """Refuse a function, or one it calls, with an op that has no rule.

    Raises:
        UnsupportedError: names all such ops and where they are.
    """
    known = {*supported, CallOp, ReturnOp}
    problems = [
        (op.name, location_text(op), reason)
        for callee in _reachable(module, function)
        for op, reason in _unsupported(callee, known)
    ]
    if problems:
        raise UnsupportedError("interpreter", problems)


def _unsupported(function: FuncOp, known: set[type[Operation]]) -> Iterator[tuple[Operation, str]]:
    if function.is_declaration:
        yield function, f"function '{function.sym_name.data}' has no body"
    elif len(function.body.blocks) != 1:
        yield function, "the reference interpreter runs functions of one block"
    else:
        for op in function.body.block.walk():
            if type(op) not in known:
                yield op, "not supported by the reference interpreter"


def _reachable(module: ModuleOp, function: FuncOp) -> Iterator[FuncOp]:
    seen, waiting = {function}, [function]
    while waiting:
        yield (current := waiting.pop())
        for op in current.walk():
            if isinstance(op, CallOp):
                callee = SymbolTable.lookup_symbol(module, op.callee)
                if not isinstance(callee, FuncOp):
                    raise TritonError(error_at(op, f"calls {op.callee}, which does not exist"))
                if callee not in seen:
                    seen.add(callee)
                    waiting.append(callee)


def run_function(
    module: ModuleOp,
    function: FuncOp,
    inputs: Sequence[Any],
    implementations: Iterable[InterpreterFunctions],
    observer: Observer | None = None,
) -> PythonValues:
    """Call `function` with values that fit its arguments; what it returns.

    `observer` sees each op after it was run.

    Raises:
        TritonError: an op cannot be run, with its place; a more special class where one fits.
    """
    interpreter = ReferenceInterpreter(module)
    interpreter.observer = observer
    interpreter.register_implementations(_Functions())
    for functions in implementations:
        interpreter.register_implementations(functions)
    return interpreter.call_op(function, tuple(inputs))
