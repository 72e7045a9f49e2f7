"""The front door of the checker: a syntax tree in, a checked program out.

`TypeChecker.check` reports every error of a program and what it imports; `TypedProgram.elaborate`
expands one layer into a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from .diagnostics import Diagnostic, DiagnosticBag, suggest
from .dims import DimError
from .elaborate import Elaborator, GenericValue
from .elaborated import Elaborated
from .loader import Loader, Module
from .nodes import Const, FunctionDef, LayerDef, Let, Program, Span
from .parser import TritonParser
from .scope import check_names
from .session import Abandon, Budget, Limits


@dataclass(frozen=True)
class Inspection:
    """All that checking a program finds out, whether or not it has errors.

    Attributes:
        module: the file, with what it imports.
        bag: every diagnostic.
        sources: text of every file of the program, by the name its spans give.
        links: where the name at each place is declared, in all files.
    """

    module: Module
    bag: DiagnosticBag
    sources: Mapping[str, str]
    links: Mapping[Span, Span]


@dataclass(frozen=True)
class TypedProgram:
    """A program without type errors.

    Attributes:
        program: its syntax tree.
        warnings: what is allowed but suspicious.
        sources: text of every file of the program, by the name its spans give.
    """

    program: Program
    module: Module = field(repr=False)
    warnings: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    limits: Limits = field(default_factory=Limits, repr=False)

    def __post_init__(self) -> None:
        for layer in self.layers:
            _program_of_layer[id(layer)] = self

    @property
    def layers(self) -> Sequence[LayerDef]:
        """The layers that the program itself declares, in order."""
        return self.program.layers

    def entry(self) -> LayerDef | None:
        """The last layer whose generic arguments all have defaults and which has a `forward`."""
        for layer in reversed(self._with_forward()):
            if all(g.default is not None for g in layer.generics):
                return layer
        return None

    def _with_forward(self) -> list[LayerDef]:
        return [d for d in self.layers if any(f.name == "forward" for f in d.functions)]

    def _report_no_entry(self, bag: DiagnosticBag) -> None:
        whole = self._with_forward()
        if not whole:
            place = self.layers[-1].name_span if self.layers else self.program.span
            hint = "write layer NAME { fn forward(x: Tensor[N, 784]) { return … } }"
            for function in (each for layer in self.layers for each in layer.functions):
                meant = suggest(function.name, ["forward"])
                if meant:
                    place, hint = function.name_span, meant
            bag.error("no layer has a fn forward", place, suggestion=hint)
            return
        layer = whole[-1]
        generic = next(g for g in layer.generics if g.default is None)
        bag.error(
            f"no layer can be the main one: {layer.name} has no default for '{generic.name}'",
            generic.span,
            suggestion=f"give it one, or write a layer without arguments that has {layer.name}",
        )

    def elaborate(
        self, layer: str | None = None, generics: Mapping[str, GenericValue] | None = None
    ) -> Elaborated:
        """Expand a layer into a flat graph.

        Args:
            layer: its name; the entry of the file if `None`.
            generics: values of its generic arguments; defaults fill the rest.

        Raises:
            CompilationError: there is no such layer, or its arguments break a rule.
        """
        bag = DiagnosticBag()
        chosen = self.entry() if layer is None else None
        if layer is not None:
            definition = self.module.find(layer)
            if definition is not None and isinstance(definition[1], LayerDef):
                chosen = definition[1]
                module = definition[0]
            else:
                names = [d.name for d in self.layers]
                bag.error(f"there is no layer '{layer}'", None, suggestion=suggest(layer, names))
                bag.raise_if_errors(self.sources)
                raise AssertionError
        else:
            module = self.module
        if chosen is None:
            self._report_no_entry(bag)
            bag.raise_if_errors(self.sources)
            raise AssertionError
        elaborator = Elaborator(bag, Budget(self.limits), is_final=True)
        result: list[Elaborated | None] = [None]

        def run() -> None:
            result[0] = elaborator.elaborate(chosen, module, generics or {})

        guarded(run, elaborator, chosen)
        bag.raise_if_errors(self.sources)
        graph = result[0]
        if graph is None:
            bag.error(f"{chosen.name} cannot be elaborated", chosen.name_span)
            bag.raise_if_errors(self.sources)
            raise AssertionError
        return graph


_program_of_layer: WeakValueDictionary[int, TypedProgram] = WeakValueDictionary()


def program_of(layer: LayerDef) -> TypedProgram | None:
    """The checked program that declares `layer`, while something else refers to that program."""
    program = _program_of_layer.get(id(layer))
    if program is None or not any(known is layer for known in program.layers):
        return None
    return program


def guarded(
    action: Callable[[], None],
    elaborator: Elaborator,
    definition: Const | Let | FunctionDef | LayerDef,
) -> None:
    """Run an evaluation; limits and runaway nesting end it with a diagnostic."""
    try:
        action()
    except Abandon:
        pass
    except DimError as error:
        elaborator.bag.error(f"in '{definition.name}': {error}", definition.name_span)
    except RecursionError:
        elaborator.bag.error(f"'{definition.name}' is nested too deeply", definition.name_span)


class TypeChecker:
    """Checks programs.

    Args:
        search_paths: folders in which imports are looked up after the importing file's own.
        limits: bounds on the work that one program may cause.
        evaluator: makes what evaluates each definition; another one may take notes.
    """

    def __init__(
        self,
        search_paths: Sequence[str | Path] = (),
        limits: Limits | None = None,
        evaluator: Callable[[DiagnosticBag, Budget], Elaborator] | None = None,
    ) -> None:
        self.search_paths = [Path(p) for p in search_paths]
        self.limits = limits or Limits()
        self.evaluator = evaluator or partial(Elaborator, is_final=False)

    def check(self, program: Program, diagnostics: Sequence[Diagnostic] = ()) -> TypedProgram:
        """Check a program and everything it imports.

        Args:
            program: the syntax tree.
            diagnostics: syntax errors of a recovered tree, reported together with type errors.

        Raises:
            CompilationError: the program has errors; its text is all of them, drawn.
        """
        found = self.inspect(program, diagnostics)
        # A misspelt name makes another look unused: warnings wait until the errors are gone.
        DiagnosticBag(found.bag.errors).raise_if_errors(found.sources)
        warnings = tuple(found.bag.warnings)
        return TypedProgram(program, found.module, warnings, found.sources, self.limits)

    def inspect(self, program: Program, diagnostics: Sequence[Diagnostic] = ()) -> Inspection:
        """Check a program as `check` does, and raise nothing."""
        bag = DiagnosticBag(diagnostics)
        loader = Loader(self.search_paths, bag)
        module = loader.load(program)
        budget = Budget(self.limits)
        links: dict[Span, Span] = {}
        for loaded in loader.modules:
            links.update(self._check_module(loaded, bag, budget))
        return Inspection(module, bag, loader.sources, links)

    def check_source(self, source: str, path: Path | None = None) -> TypedProgram:
        """Parse and check a program; errors of syntax and of types come in one report.

        Args:
            source: the text.
            path: the file it came from; names the text in messages and is where imports start.

        Raises:
            CompilationError: the program has errors; its text is all of them, drawn.
        """
        program, diagnostics = TritonParser().parse_with_recovery(source, path)
        return self.check(program, diagnostics)

    def _check_module(
        self, module: Module, bag: DiagnosticBag, budget: Budget
    ) -> Mapping[Span, Span]:
        try:
            links = check_names(module, bag)
        except RecursionError:
            bag.error("the program is nested too deeply", module.program.span)
            return {}
        for definition in module.program.declarations:
            if bag.is_full or budget.is_spent:
                break
            elaborator = self.evaluator(bag, budget)
            match definition:
                case Const() | Let():
                    guarded(
                        lambda e=elaborator, d=definition: e.check_constant(d, module),
                        elaborator,
                        definition,
                    )
                case FunctionDef():
                    guarded(
                        lambda e=elaborator, d=definition: e.check_function(d, module),
                        elaborator,
                        definition,
                    )
                case LayerDef():
                    guarded(
                        lambda e=elaborator, d=definition: e.check_layer(d, module),
                        elaborator,
                        definition,
                    )
                case _:
                    pass
        return links
