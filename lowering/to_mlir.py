"""The target `mlir`: IR for the tools of others, as `mlir-opt`, IREE and viewers read it.

The text is MLIR's generic form under the names of `ir.upstream`, with the parameters in a file
beside it; this project's tools read it back to the same module. No pass runs before: what goes in
comes out.

It is the form that most readers take. Model Explorer's dies of an op of a dialect that it does not
know, but takes unknown ops in TensorFlow's, and shows attributes alone: so our ops stand under
`tf`, and their properties among the attributes. `triton-opt --upstream-names` prints the form for
other tools of MLIR, without either. Not here: text for our own tools (`lowering.module_file`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from xdsl.dialects.builtin import ModuleOp

from ..dialects.parameters import attach_store
from ..ir.identifiers import identifier
from ..ir.printing import PrintOptions, module_text
from ..ir.store import ParameterStore
from .artifact import Artifact
from .options import TargetOptions
from .stages import Stage, save_parameters
from .target import Target

FORM = PrintOptions(upstream_names=True, upstream_prefix=True, properties_as_attributes=True)


class MlirTarget(Target):
    """MLIR's generic form and a safetensors file."""

    name = "mlir"
    description = "MLIR text that mlir-opt, IREE, Netron and Model Explorer read, weights beside it"
    seals = False

    def stages(self, options: TargetOptions) -> Sequence[Stage]:
        """None: the program is written as it is."""
        del options
        return ()

    def emit(self, module: ModuleOp, options: TargetOptions) -> Artifact:
        """`NAME.mlir`, and `parameters-HASH.safetensors` where the module has values.

        The name with the hash is in the text, so another module in the same folder takes no
        other's parameters.

        Raises:
            ParameterError: parameters cannot be read.
            LoweringError: an attribute has the name of a property of its op.
        """
        del options
        files: dict[str, bytes] = {}
        with TemporaryDirectory() as folder:
            reference = save_parameters(Path(folder), [module])
            if reference is not None:
                path = f"parameters-{reference.sha256[:12]}.safetensors"
                files[path] = reference.location.read_bytes()
                attach_store(module, ParameterStore(replace(reference, path=path)))
        name = identifier(module.sym_name.data) if module.sym_name is not None else "model"
        main = f"{name}.mlir"
        return Artifact(name, {main: module_text(module, FORM).encode(), **files}, primary=main)
