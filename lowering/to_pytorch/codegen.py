"""From a checked layer of a `.tri` program to PyTorch source, without an artefact in between."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.language.checker import TypeChecker, TypedProgram, program_of
from ...ir.language.elaborate import GenericValue
from ...ir.language.nodes import LayerDef, Program
from ..from_tri import module_from_elaborated
from ..targets import compile_to_target


class PyTorchCodeGenerator:
    """Generates `nn.Module` source.

    Args:
        trainable: give ternary parameters float latents that can be trained.
        options: options of the target `pytorch` (`class_name`, `optimize`).
    """

    def __init__(self, *, trainable: bool = False, **options: object) -> None:
        self.trainable = trainable
        self.options = options

    def generate_module(
        self,
        layer: LayerDef,
        program: TypedProgram | None = None,
        generics: Mapping[str, GenericValue] | None = None,
    ) -> str:
        """The source of a file with one class, named after the layer; it runs with torch alone.

        Args:
            layer: a layer of a checked program: `TypeChecker().check(tree).layers[0]`.
            program: the program it belongs to; found by itself while the program is alive. A layer
                of no known program is checked alone, and may then use only the prelude.
            generics: values of the layer's generic arguments.

        Raises:
            CompilationError: the layer has errors.
            UnsupportedError: it uses what PyTorch cannot express.
        """
        typed = program or program_of(layer)
        if typed is None:
            alone = Program((layer,), source="", path=None, span=layer.span)
            typed = TypeChecker().check(alone)
        graph = typed.elaborate(layer.name, generics or {})
        module = module_from_elaborated(graph, trainable=self.trainable)
        return compile_to_target(module, "pytorch", self.options).text()
