"""The target `native`: its options, its stages, and the artefact with code and C header."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from ...dialects.tensor.ordering import CumulativeOp
from ...ir.errors import OptionError
from ...passes.decompose import decomposition
from ..artifact import Artifact
from ..options import TargetOptions, option
from ..stages import Stage
from ..target import Target
from .elf import undefined_symbols
from .export import check_lowered, standalone_text
from .header import c_header, in_c
from .interface import note_interface, noted_interface
from .kernels.additions import can_add
from .kernels.neuron_steps import KERNELS
from .kernels.recipes import Recipe, recipe_for
from .linalg import takes
from .link import shared_library
from .machine import Machine, machine_of
from .object_code import Compiled, compile_text

Form = Literal["object", "shared", "assembly", "llvm-ir"]
SUFFIXES: dict[str, Form] = {
    ".o": "object",
    ".obj": "object",
    ".so": "shared",
    ".dylib": "shared",
    ".s": "assembly",
    ".ll": "llvm-ir",
}
"""What a file name says about the form."""
_LONG = 32
"""Rows from which on products of bytes are loops, which are sums of dot products or additions."""


@dataclass(frozen=True)
class NativeOptions(TargetOptions):
    """Options of the target `native`."""

    recipe: str | None = option(
        None, "instruction set of the kernels, as avx2; by default the best"
    )
    precision: Literal["float32", "dynamic-int8"] = option(
        "float32", "float activations of ternary layers: as accurate as float32, or rounded to int8"
    )
    spikes: Literal["event", "dense"] = option(
        "event", "synapses of spikes: add the weights of inputs that fire, or multiply by all"
    )
    cpu: str | None = option(
        None, "processor to compile for, as x86-64-v3; by default this one, or any of the triple"
    )
    triple: str | None = option(None, "system to compile for, as aarch64-linux-gnu")
    form: Literal["object", "shared", "assembly", "llvm-ir"] | None = option(
        None, "what to write beside the C header; by default what the file name says, or object"
    )
    outside: bool = option(
        False,
        "matrices of trits, and outputs that begin with an input, stay in the caller's memory; for "
        "programs in this process alone",
    )
    winograd: bool = option(
        True,
        "windows of 3x3 may take 16 products for 36, with trits on bytes 36 for 144 (Winograd)",
    )
    additions: bool = option(
        True, "convolutions of bytes with trits may be code that adds for each trit but zeros"
    )
    kept: bool = option(
        True,
        "the first call may expand trits for all that follow, into memory of the program's own",
    )
    name: str | None = option(None, "name of the C function; by default the model's")

    def machine(self) -> Machine:
        """What to compile for.

        Raises:
            OptionError: an unknown triple or processor.
        """
        return machine_of(self.triple, self.cpu)

    def kernels(self) -> Recipe:
        """The instruction set of the kernels.

        Raises:
            OptionError: an unknown one, or one that the processor does not have.
        """
        return recipe_for(self.recipe, self.machine().features)


class NativeTarget(Target[NativeOptions]):
    """Machine code with a C header; no compiler is needed but for a shared library."""

    name: ClassVar[str] = "native"
    description: ClassVar[str] = "machine code for a processor, with a C header"
    Options: ClassVar[type[TargetOptions]] = NativeOptions
    engine = f"{__package__}.engine:NativeEngine"
    engine_package = "llvmlite"
    known_steps = True

    def options_for(self, options: NativeOptions, output: Path) -> NativeOptions:
        """The form follows from the suffix where it is not given.

        Raises:
            OptionError: both are given and contradict each other, or a suffix that says no form.
        """
        wanted = SUFFIXES.get(output.suffix)
        if wanted is None and output.suffix and options.form is None:
            raise OptionError(
                f"'{output}' does not say what to write: end it in {', '.join(SUFFIXES)}, or give "
                "the form, as in 'native{form=object}'"
            )
        if options.form is None or wanted in (None, options.form):
            return replace(options, form=options.form or wanted)
        raise OptionError(
            f"'{output}' is a file of form={wanted}, and form={options.form} is given"
        )

    def prepare(self, module: ModuleOp, options: NativeOptions) -> None:
        """Note the interface before the passes take names and types away."""
        note_interface(module, options.kernels().name)

    def stages(self, options: NativeOptions) -> Sequence[Stage]:
        """From whole tensors to the `llvm` dialect."""
        words = [f"precision={options.precision}"]
        if options != NativeOptions(precision=options.precision, spikes=options.spikes):
            words.insert(0, f"recipe={options.kernels().name}")
        own = replace(options, additions=options.additions and options.machine().assembles)
        for name in ("outside", "winograd", "additions", "kept"):
            if getattr(own, name) != getattr(NativeOptions, name):
                words.append(f"{name}={str(getattr(own, name)).lower()}")
        keep = "ternary" if options.precision == "float32" else "rounded"
        if own.additions and can_add(options.kernels()) and not options.outside:
            keep += f" rows={_LONG}"
        if keep.startswith("ternary") and not options.kernels().dots and not options.outside:
            keep += " floats=true"
        return native_stages(" ".join(words), options.spikes, keep)

    def emit(self, module: ModuleOp, options: NativeOptions) -> Artifact:
        """The code in the form asked for, and its header.

        Raises:
            UnsupportedError: names every op that did not reach the `llvm` dialect.
            BackendError: llvmlite or, for a shared library, the C compiler is missing.
        """
        if options.outside:
            raise OptionError("outside=true is for programs in this process, not for files")
        check_lowered(module)
        interface, machine = noted_interface(module), options.machine()
        prefix = in_c(options.name or interface.name)
        compiled = compile_text(standalone_text(module, interface, prefix, machine), machine)
        content = compiled.object()
        form = options.form or "object"
        suffix, data = _formed(form, compiled, content, machine, prefix)
        words = f"{machine.triple}, {machine.cpu}, recipe {interface.recipe}"
        header = c_header(interface, prefix, words, undefined_symbols(content))
        files = {f"{prefix}{suffix}": data, f"{prefix}.h": header.encode()}
        manifest = {"interface": interface.to_dict(), "prefix": prefix}
        return Artifact(prefix, files, manifest=manifest, primary=f"{prefix}{suffix}")


def native_stages(options: str, spikes: str = "event", keep: str = "ternary") -> tuple[Stage, ...]:
    """The stages, with the options of the pass to memory, the form of spiking synapses, and what
    stays for kernels (`convert-tensor-to-linalg`)."""
    return (
        *loop_stages(spikes, keep, KERNELS, integers=True),
        Stage("memory", f"convert-ternary-to-llvm{{{options}}}"),
        Stage(
            "llvm",
            "convert-vector-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,"
            "convert-cf-to-llvm,convert-func-to-llvm",
        ),
    )


def _takes_and_adds_up(kind: type[Operation], element: Attribute) -> bool:
    """Running sums stay until it is known which the loop over the steps keeps."""
    return issubclass(kind, CumulativeOp) or takes(kind, element)


def loop_stages(
    spikes: str,
    keep: str,
    neurons: Collection[str],
    *,
    fused: bool = False,
    integers: bool = False,
) -> tuple[Stage, ...]:
    """The stages from whole tensors to loops over elements.

    Args:
        spikes: which synapses stay, see `convert-spike-to-tensor`.
        keep: which products stay, see `convert-tensor-to-linalg`.
        neurons: the models that stay.
        fused: whether spiking layers share a loop over the steps (`fuse-steps`), so that no run
            stands in memory.
        integers: whether bytes are multiplied in place of the floats that they stand for
            (`multiply-integers`), and their sums rounded by floats (`rescale-in-floats`).
    """
    products, rescaling = "", ""
    if integers:
        products, rescaling = "multiply-integers,", ",rescale-in-floats,cse,dce"
    kept = f" keep={','.join(neurons)}" if neurons else ""
    whole = parts = decomposition(takes)
    first = ""
    if fused:
        whole = decomposition(_takes_and_adds_up)
        first = f"fuse-steps,{parts},canonicalize,cse,dce,"
    return (
        Stage("decompose", whole),
        Stage("simplify", "canonicalize,cse,dce"),
        Stage(
            "spikes",
            "lower-network,inline-spike-layers,fuse-spike{exact=true layers=false},"
            f"lower-recurrent,convert-spike-to-tensor{{products={spikes}}}",
        ),
        Stage(
            "fuse",
            f"{products}fold-constants{{keep-packed=true}},fuse-linear,"
            f"fold-constants{{keep-packed=true}},canonicalize,cse,dce{rescaling}",
        ),
        Stage(
            "neurons",  # those without kernels, behind what fuses arithmetic
            f"{first}convert-spike-to-tensor{{products={spikes} neurons=loop{kept}}},"
            "canonicalize,cse,dce",
        ),
        Stage(
            "linalg",
            f"convert-tensor-to-linalg{{keep={keep}}},canonicalize,cse,dce,fuse-elementwise",
        ),
    )


def _formed(
    form: Form, compiled: Compiled, content: bytes, machine: Machine, prefix: str
) -> tuple[str, bytes]:
    """File suffix and content."""
    match form:
        case "object":
            return ".o", content
        case "assembly":
            return ".s", compiled.assembly().encode()
        case "llvm-ir":
            return ".ll", compiled.llvm_ir().encode()
        case "shared":
            if not machine.host:
                raise OptionError(
                    "form=shared is linked by this system's compiler, for this processor; for "
                    "another one take form=object"
                )
            return ".so", shared_library(content, prefix)
