"""Sees a program on its way through passes, and keeps a stage for each that changes something.

Not here: what a stage is made of (`stage`, `values`), and which passes run.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...ir.arrays import Array
from ...ir.errors import OptionError, TritonError
from ...ir.instrument import Instrument
from ...ir.pipeline import pipeline_text
from ...runtime.equivalence import is_approximate
from .following import Objects, origins, replacements, values_followed
from .stage import Files, lines_of, stage_data
from .values import gaps_of, observe, statistics, stray_share

if TYPE_CHECKING:
    from .values import Observed

_MOST_OBSERVED = 20_000
"""Ops of a stage that is still run."""


class Recorder(Instrument):
    """The stages of a program.

    Args:
        inputs: of `@forward`, on which each stage is run; `None` to run nothing.
    """

    def __init__(self, inputs: Sequence[Array] | None) -> None:
        self.inputs = inputs
        self.files = Files()
        self.stages: list[dict[str, Any]] = []
        self.arrays: list[dict[int, Array]] = []
        """For each stage what was computed, by the number of the value."""
        self.refused = False
        """Whether a pass or a target refused the program."""
        self._last = -1
        self._track = ""
        self._text: list[str] = []
        self._objects: Objects | None = None
        self._listening = ExitStack()
        self._replaced: dict[Any, Any] = {}

    def see(
        self,
        module: ModuleOp,
        name: str,
        passes: str = "",
        *,
        approximate: bool = False,
        always: bool = False,
    ) -> None:
        """Keep a stage, which comes from the last one that was seen.

        One with the same text is a name in `unchanged` of the last one, unless `always`.
        """
        text = lines_of(module)[0]
        if self._objects is not None and text == self._text and not always:
            self._objects = Objects(module)
            self.stages[self._last]["unchanged"].append(name)
            return
        objects = Objects(module)
        stage: dict[str, Any] = {
            "name": name,
            "passes": passes,
            "track": self._track,
            "before": self._last,
            "approximate": approximate,
            "unchanged": [],
            "checks": [],
            **stage_data(objects, module, self.files),
        }
        arrays = self._observed(module, objects, stage)
        self._stray = stray_share(module)
        if self._objects is not None:
            found = origins(self._objects, objects, self._replaced)
            for op, comes in zip(stage["ops"], found, strict=False):
                op["origins"] = comes
            followed = values_followed(self._objects, objects, self._replaced)
            before = self.arrays[self._last]
            if arrays and before:
                stage["checks"].append(self._check(objects, followed, before, arrays, approximate))
        self.stages.append(stage)
        self.arrays.append(arrays)
        self._objects, self._text, self._last = objects, text, len(self.stages) - 1

    def branch(self, track: str, stage: int, module: ModuleOp) -> None:
        """Go on from a stage, as a module that has its text; the stages then belong to `track`."""
        self._track, self._last = track, stage
        self._objects, self._text = Objects(module), lines_of(module)[0]

    @contextmanager
    def refusals(self, name: str) -> Generator[None]:
        """Keep with the last stage what refuses it.

        Raises:
            OptionError: what is asked for is not there.
        """
        try:
            yield
        except OptionError:
            raise
        except TritonError as error:
            self.refused = True
            self.stages[self._last]["checks"].append(
                {"kind": "refusal", "name": name, "agrees": False, "values": {}, "first": None,
                 "note": str(error)}
            )  # fmt: skip

    def start(self, module: ModuleOp) -> None:
        """The module may be a copy of the last one seen: its ops then have the same numbers."""
        copy = Objects(module)
        assert self._objects is not None
        if [op.name for op in copy.ops] == [op.name for op in self._objects.ops]:
            self._replaced = dict(zip(self._objects.values, copy.values, strict=True))
        if lines_of(module)[0] == self._text:
            self._objects = copy
        else:
            self.see(module, "prepare")

    def before(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        self._replaced = self._listening.enter_context(replacements())

    def after(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        self._listening.close()
        passes, approximate = pipeline_text(rest[:1]), is_approximate(rest[0])
        self.see(module, rest[0].name, passes, approximate=approximate)

    def failed(self, module: ModuleOp, rest: Sequence[ModulePass], error: BaseException) -> None:
        self._listening.close()

    def _observed(
        self, module: ModuleOp, objects: Objects, stage: dict[str, Any]
    ) -> dict[int, Array]:
        if self.inputs is None or len(objects.ops) > _MOST_OBSERVED:
            return {}
        seen: Observed
        seen, stage["not_run"] = observe(module, self.inputs)
        arrays = {objects.value_number[v]: a for v, a in seen.items() if v in objects.value_number}
        for number, array in arrays.items():
            if number < len(stage["values"]):
                stage["values"][number]["statistics"] = statistics(array)
        return arrays

    def _check(
        self,
        objects: Objects,
        followed: dict[int, int],
        before: dict[int, Array],
        arrays: dict[int, Array],
        approximate: bool,
    ) -> dict[str, Any]:
        """What a pass changed of what is computed, at values that it left or replaced."""
        assert self._objects is not None
        results = objects.returned
        pairs = followed | dict(zip(results, self._objects.returned, strict=False))
        found = gaps_of(pairs, before, arrays, results, self._stray)
        wrong = [number for number in results if found.get(str(number), {}).get("wrong")]
        first = first_wrong(objects, found) if wrong else None
        return {
            "kind": "pass",
            "name": "the stage before",
            "agrees": not wrong or approximate,
            "values": found,
            "first": first,
            "note": "changes results on purpose" if approximate else "",
        }


def first_wrong(objects: Objects, found: dict[str, Any]) -> int | None:
    """The first op, in the order of the program, with a result that is wrong."""
    for number, op in enumerate(objects.ops):
        results = (str(objects.value_number[result]) for result in op.results)
        if any(found.get(result, {}).get("wrong") for result in results):
            return number
    return None
