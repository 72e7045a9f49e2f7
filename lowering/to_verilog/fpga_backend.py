"""`FPGABackend`: the target `verilog` as a back end on the syntax tree, one layer as one file.

Not here: the interface of back ends (`lowering.compile_model`), the circuit (`target`).
"""

from __future__ import annotations

import re
from math import isfinite, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from ...dialects.inference import tensor_type
from ...ir.arrays import Array
from ...ir.errors import LoweringError, OptionError
from ...ir.interpreter import entry_function
from ...ir.language.checker import program_of
from ..artifact import Artifact
from ..calibration_file import save_calibration
from ..compile_model import BackendBase
from ..from_tri import module_from_elaborated
from ..targets import compile_to_target
from ..weights import Weights, attach_weights
from .circuit.evaluation import identifier
from .estimate.devices import find_device

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ...ir.language.elaborated import Elaborated
    from ...ir.language.nodes import LayerDef
    from ...ir.language.types import TensorType


_ROWS = 64
"""Random inputs that stand for a range."""


class FPGABackend(BackendBase):
    """Verilog of one layer for an FPGA.

    With weights the layer becomes the circuit of the target `verilog`, weights in its wiring. A
    float layer is made one of integers, by samples of its inputs or by the range that they are in.
    Without, it becomes a module of ports alone, a black box to put a circuit into: parameters and
    inputs come in, two bits a trit, first elements in the lowest bits; a free size is 1.

    Args:
        target_device: what it must fit on, see `to_verilog.estimate.devices`.
        weights: a weights file or a `state_dict`.
        calibration: of a float layer: samples [N, …] of its input, or a file of them, see
            `ir.samples`.
        input_range: of a float layer, in the place of samples: the least and the largest input.
            Activations within get the ranges that they have for random inputs in it; samples give
            closer ones.
        options: others of the target `verilog`, as `input_bits=4`, or `bits=4` with either.

    Raises:
        OptionError: no such device, or what makes integers is given twice, or is no range.
    """

    def __init__(
        self,
        target_device: str = "xcvu9p",
        weights: str | Weights | None = None,
        calibration: str | Path | Array | None = None,
        input_range: tuple[float, float] | None = None,
        **options: object,
    ) -> None:
        self.target_device = target_device
        self.weights = Path(weights) if isinstance(weights, str) else weights
        if (calibration is not None or input_range is not None) and weights is None:
            raise OptionError("a float layer becomes a circuit with its weights: give weights=")
        if input_range is not None:
            low, high = map(float, input_range)
            if calibration is not None or not (isfinite(low) and isfinite(high) and low < high):
                raise OptionError(
                    "expected input_range=(low, high), low < high, in the place of calibration; "
                    f"got {input_range}"
                )
        self.calibration, self.input_range = calibration, input_range
        self.options = options
        self.device = find_device(target_device)

    def generate_code(self, layer_def: LayerDef) -> str:
        """Verilog of a checked layer.

        Raises:
            LoweringError: the layer is of no checked program, or a size of a port is not known; or
                the circuit does not fit.
            UnsupportedError: ops without hardware, all of them.
        """
        program = program_of(layer_def)
        if program is None:
            raise LoweringError(f"layer '{layer_def.name}' is of no checked program")
        layer = program.elaborate(layer_def.name)
        code = _box(layer) if self.weights is None else self._circuit(layer)
        return f"// Target: {self.target_device}\n{code}"

    def compile(self, code: str) -> Artifact:
        """The code as a file that synthesis takes, named after its outermost module."""
        name = re.findall(r"^module (\w+)", code, re.MULTILINE)[-1]
        return Artifact(name, {f"{name}.v": code.encode()})

    def optimize(self, compiled_model: Artifact) -> Artifact:
        """The same: the circuit has been made small, the rest is for synthesis."""
        return compiled_model

    def _circuit(self, layer: Elaborated) -> str:
        assert self.weights is not None
        module = module_from_elaborated(layer)
        attach_weights(module, self.weights)
        options = {**self.options, "device": self.device.part, "form": "file"}
        with TemporaryDirectory() as folder:
            samples = self.calibration
            if self.input_range is not None:
                samples = _within(module, *self.input_range)
            if isinstance(samples, np.ndarray):
                samples = save_calibration(
                    entry_function(module, "forward"), [samples], Path(folder)
                )
            if samples is not None:
                options["calibration"] = str(samples)
            return compile_to_target(module, "verilog", options).text()


def _within(module: ModuleOp, low: float, high: float) -> Array:
    """Rows of random inputs from `low` to `high`; the first two are all of these themselves."""
    arguments = entry_function(module, "forward").args
    if len(arguments) != 1:
        raise OptionError(f"input_range is of one input, and the layer has {len(arguments)}")
    shape = tensor_type(arguments[0]).get_shape()[1:]
    rows = np.random.default_rng(0).uniform(low, high, (_ROWS, *(max(n, 1) for n in shape)))
    rows[0], rows[1] = low, high
    return rows.astype(np.float32)


def _box(layer: Elaborated) -> str:
    """A module without a body, whose ports are the layer's parameters, inputs and results."""
    ports = [("input", value.path, value.type) for value in layer.parameters]
    ports += [("input", value.name, value.type) for value in layer.inputs]
    many = len(layer.outputs) > 1
    for index, value in enumerate(layer.outputs):
        ports.append(("output", f"output{index}" if many else "output", value.type))
    shown: dict[str, str] = {}
    for direction, name, type in ports:
        port = identifier(name)
        while port in shown:
            port += "_"
        shown[port] = f"    {direction} wire [{_bits(type) - 1}:0] {port}"
    head = f"(* blackbox *)\nmodule {identifier(layer.name)} (\n"
    return head + ",\n".join(shown.values()) + "\n);\nendmodule\n"


def _bits(type: TensorType) -> int:
    """The bits of a tensor, with 1 for a size that is not known."""
    named = {"trit": 2, "bool": 1}
    width = named.get(type.element) or int(re.sub(r"\D", "", type.element))
    return width * prod(n or 1 for n in type.static_shape())
