"""PyTorch modules, run eagerly as their authors run them, and files of `torch.export.save`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from ...ir.arrays import Array
from ...ir.errors import BackendError, first_line
from ...runtime.engines import from_array, to_array
from ..from_torch.exporting import evaluating
from ..from_torch.places import location
from ..from_torch.pt2_file import read_pt2
from .source import Source, Values, place_of

if TYPE_CHECKING:
    from ..models import ExampleInputs


class TorchSource(Source):
    """A module, in evaluation mode.

    Args:
        module: an `nn.Module`; it stays as it is.
        example_inputs: what `from_torch` was given, where `forward` takes more than tensors in
            their order: the tensors in it are replaced, the rest stays.
    """

    def __init__(self, module: nn.Module, example_inputs: ExampleInputs | None = None) -> None:
        self.module = module
        self.example = example_inputs
        self.engine = "none"

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Source.run`; nested results in their order."""
        from importlib.metadata import version

        args, kwargs = self._arguments(inputs)
        try:
            with evaluating(self.module), torch.inference_mode():
                results: list[Tensor | None] = pytree.tree_leaves(self.module(*args, **kwargs))
        except (AssertionError, RuntimeError, ValueError, TypeError) as error:  # guards assert
            text = first_line(error)
            raise BackendError(f"PyTorch refuses to run the module: {text}") from error
        self.engine = f"torch {version('torch')} (eager)"
        return [to_array(value) for value in results if value is not None]

    def values(self, inputs: Sequence[Array]) -> Values:
        """See `Source.values`: of the operators of `torch.export`, one by one."""
        args, kwargs = self._arguments(inputs)
        results: Values = {}

        class Recorder(torch.fx.Interpreter):
            """Keeps what operators give, by the places that ops of the program have."""

            def run_node(self, n: fx.Node) -> object:
                result: object = super().run_node(n)
                place = place_of(location(n)) if n.op == "call_function" else None
                if place is not None and isinstance(result, torch.Tensor):
                    results.setdefault(place, []).append(to_array(result))
                return result

        try:
            with evaluating(self.module), torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                graph, leaves = self._graph(args, kwargs)
                Recorder(graph).run(*leaves, enable_io_processing=False)
        except Exception as error:  # export runs the module's own code
            text = first_line(error)
            raise BackendError(f"PyTorch cannot tell what the module computes: {text}") from error
        return results

    def _graph(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[nn.Module, list[object]]:
        """The module as a graph of operators, and what it takes, one by one."""
        program = torch.export.export(self.module, args, kwargs, strict=False)
        return program.module(), pytree.tree_leaves((args, kwargs))

    def _arguments(self, inputs: Sequence[Array]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Positional and keyword arguments with tensors of these values."""
        tensors = [from_array(x) for x in inputs]
        if self.example is None:
            return tuple(tensors), {}
        leaves, spec = pytree.tree_flatten(self.example)
        left = iter(tensors)
        arguments: object = pytree.tree_unflatten(
            [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec
        )
        if isinstance(arguments, Mapping):
            return (), dict(cast("Mapping[str, object]", arguments))
        if isinstance(arguments, Sequence):
            return tuple(cast("Sequence[object]", arguments)), {}
        return (arguments,), {}


class ProgramSource(TorchSource):
    """A file of `torch.export.save`, whose operators PyTorch runs one by one.

    Raises:
        SourceError: as `from_pt2`.
    """

    def __init__(self, path: Path) -> None:
        self.program = read_pt2(path)
        super().__init__(self.program.module())
        self.size = path.stat().st_size

    def _graph(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[nn.Module, list[object]]:
        return self.module, pytree.tree_leaves((args, kwargs))

    def _arguments(self, inputs: Sequence[Array]) -> tuple[tuple[object, ...], dict[str, object]]:
        left = map(from_array, inputs)
        given = self.program.graph_signature.user_inputs  # names of tensors, and other values
        spec = self.program.call_spec.in_spec
        assert spec is not None
        leaves = [next(left) if isinstance(each, str) else each for each in given]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return args, kwargs
