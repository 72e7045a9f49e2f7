"""A function with neurons as a network of stages: a beat is a step, a frame those of a sample."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import BlockArgument, Operation, SSAValue

from .....dialects import spike, tensor
from .....dialects.inference import tensor_type
from .....dialects.shapes import DYNAMIC, AnyTensor, is_float
from .....dialects.spike.types import dense_type
from .....ir.errors import UnsupportedError
from .....ir.locations import location_text
from .....ir.neurons import MODELS
from .....passes.analysis.compile_time import is_literal, literal_value
from .....passes.quantize_neurons.quantize_neurons import INTEGER_FORMS
from ..circuit_rules import holds_integers
from ..conversion import Conversion, is_known
from ..evaluation import LayerNames
from ..folding.forms import has_form
from .building import Bounds, Building
from .conversion import FrameConversion
from .neuron_rules import neuron_rules
from .neuron_rules import step_refusal as neuron_refusal
from .partition import Partition
from .products import ImageOp
from .recurrence import scan_refusal, step_refusal
from .timed import TimedPartition, is_timed
from .timed_building import TimedBuilding
from .train_images import image_refusal


def has_trains(function: func.FuncOp) -> bool:
    """Whether a program has ops of `spike`, or steps that come one by one."""
    timed = any(is_timed(function, index) for index in range(len(function.args)))
    return timed or any(op.name.startswith("spike.") for op in function.body.walk())


class SpikeConversion(FrameConversion):
    """Makes the modules of one function that `expose-trains` went over."""

    def refusal(self, op: Operation) -> str | None:
        """Why an op cannot become hardware; `None` if it can."""
        if isinstance(op.parent_op(), spike.ScanOp) and _parent(op) is self.function:
            return self._refusal_in_loop(op)
        if op.parent_op() is not self.function:
            return None  # the op around it is refused
        if has_form(op):
            return "layers of spiking programs are not folded; leave out fold, targets and folding"
        match op:
            case spike.NeuronOp():
                return _neuron_refusal(op)
            case spike.ScanOp():
                return scan_refusal(op)
            case spike.ToTensorOp() | spike.FromTensorOp() if _serves_loop(op):
                return None
            case spike.ToTensorOp() if not isinstance(op.operand.owner, spike.FromTensorOp):
                return None  # a neuron made the train, or an op that is refused itself
            case spike.ConvOp() | spike.MaxPoolOp():
                return image_refusal(op) or _conv_refusal(op)
            case spike.FromTensorOp() if _feeds_images(op):
                return None
            case spike.DelayOp():
                return _delay_refusal(op)
            case spike.EncodeOp() if op.scheme.data == "direct":
                if not isinstance(op.result.type, TensorType):
                    return "a train that is the same at each step; convert it to i8 before"
                return None if holds_integers(op.operand) else _FLOATS
            case tensor.MatmulOp() if _is_known_product(op):
                return None
            case _ if op.name.startswith("spike."):
                return _WHY_NOT.get(op.name, "no circuit for it")
            case _:
                reason = super().refusal(op)
                floats = reason is not None and any(is_float(v) for v in _tensors(op))
                return _FLOATS if floats else reason

    def _refusal_in_loop(self, op: Operation) -> str | None:
        """Why an op cannot be part of a step of a loop."""
        if isinstance(op, spike.YieldOp):
            return None
        reason = step_refusal(op)
        match op:
            case _ if reason is not None:
                return reason
            case spike.NeuronOp():
                return _model_refusal(op)
            case tensor.MatmulOp() if _is_known_product(op):
                return None
            case spike.LinearOp():
                return None if holds_integers(op.result) else _FLOATS
            case spike.DelayOp() if op.delays is not None and not is_known(op.delays):
                return "its delays must be constants with values"
            case spike.DelayOp() | spike.ToTensorOp() | spike.FromTensorOp():
                return None
            case _ if op.name.startswith("spike."):
                return _WHY_NOT.get(op.name, "no circuit for it")
            case _:
                floats = any(is_float(value) for value in _tensors(op))
                return _FLOATS if floats else Conversion.refusal(self, op)

    def _misfit(self, argument: SSAValue) -> str | None:
        assert isinstance(argument, BlockArgument)
        if not is_timed(self.function, argument.index) or not isinstance(argument.type, TensorType):
            return super()._misfit(argument)
        steps, *shape = tensor_type(argument).get_shape()
        if not holds_integers(argument):
            return f"an argument is {argument.type}; {_FLOATS}"
        if steps == DYNAMIC:
            return f"an argument is {argument.type}; say how many steps a sample has: timesteps=T"
        if DYNAMIC in shape[1:]:
            return f"an argument is {argument.type}; only the axis after time may be free"
        return None

    def _check_frames(self) -> None:
        function = self.function
        place = location_text(function)
        timed = [is_timed(function, index) for index in range(len(function.args))]
        problems: list[tuple[str, str, str]] = []
        steps = {
            tensor_type(a).get_shape()[0] for a, t in zip(function.args, timed, strict=True) if t
        }
        if len(steps) > 1 or len(set(timed)) > 1:
            problems.append(("func.func", place, "arguments come in frames of different lengths"))
        ranks = {tensor_type(argument).get_num_dims() for argument in function.args}
        if any(timed) and len(ranks) > 1:
            problems.append(("func.func", place, "trains of different ranks; reshape one of them"))
        returned = function.body.block.last_op
        assert returned is not None
        if any(is_literal(value.owner) for value in returned.operands):
            problems.append(("func.return", location_text(returned), "a result is a constant"))
        images = {tensor_type(argument).get_shape()[3:] for argument in function.args}
        if (
            any(timed)
            and len(images) > 1
            and any(isinstance(op, ImageOp) for op in function.body.block.ops)
        ):
            problems.append(("func.func", place, "images of different sizes"))
        if problems:
            raise UnsupportedError("verilog", problems)

    def partition(self) -> Partition:
        """The parts of the function."""
        return TimedPartition(self.function)

    def building(
        self, partition: Partition, inputs: dict[SSAValue, Bounds], names: LayerNames
    ) -> Building:
        """What makes their stages."""
        return TimedBuilding(self.modules, partition, inputs, names, self.options)


_FLOATS = "floating point; run quantize-spike and quantize-neurons before"

_WHY_NOT = {
    "spike.recurrent": "run lower-recurrent before",
    "spike.encode": "the sender encodes: make the train an argument (only 'direct' has a circuit)",
    "spike.decode": "floating point; read integers out: the sum, the largest or the last of a run",
    "spike.conv": "a convolution in a loop has no circuit; use linear synapses",
    "spike.avg_pool": "floating point; use max_pool, or a convolution with known weights",
    "spike.max_pool": "images of spikes in a loop have no circuit",
    "spike.attention": "products of trains have no circuit",
    "spike.batch_norm": "floating point; fold it into the weights with fuse-spike",
    "spike.layer": "run inline-spike-layers before",
    "spike.simulate": "run lower-network before",
    "spike.to_tensor": "run expose-trains, canonicalize, cse and dce before",
    "spike.from_tensor": "run expose-trains, canonicalize, cse and dce before",
    "spike.linear": "run expose-trains before",
}


def _parent(op: Operation) -> Operation | None:
    """The op around the one around an op."""
    around = op.parent_op()
    return None if around is None else around.parent_op()


def _conv_refusal(op: ImageOp) -> str | None:
    """Why a convolution has no circuit, apart from its images."""
    if isinstance(op, spike.MaxPoolOp):
        return None
    if op.scale is not None or not holds_integers(op.result) or not holds_integers(op.input):
        return _FLOATS
    if not is_known(op.weight) or (op.bias is not None and not is_known(op.bias)):
        return "its weights and bias must be constants with values"
    return None


def _feeds_images(op: spike.FromTensorOp) -> bool:
    """Whether an op only makes truth values the images that windows are made of."""
    readers = [use.operation for use in op.result.uses]
    truth = tensor_type(op.operand).element_type == i1
    return truth and all(isinstance(reader, ImageOp | spike.ScanOp) for reader in readers)


def _serves_loop(op: spike.ToTensorOp | spike.FromTensorOp) -> bool:
    """Whether an op only takes or gives the steps of a loop, which needs no circuit."""
    if isinstance(op, spike.ToTensorOp):
        return isinstance(op.operand.owner, spike.ScanOp)
    return all(isinstance(use.operation, spike.ScanOp) for use in op.result.uses) and (
        tensor_type(op.operand).element_type == i1
    )


def _model_refusal(op: spike.NeuronOp) -> str | None:
    """Why neurons of a model with those parameters have no circuit."""
    if not (op.MODEL.on_integers and op.MODEL.spikes) and op.MODEL.name not in INTEGER_FORMS:
        known = ", ".join(
            f"spike.{name}" for name, model in MODELS.items() if model.on_integers and model.spikes
        )
        return f"no circuit for this model; use one of {known}"
    if not holds_integers(op.input):
        return _FLOATS
    if not all(is_known(v) for v in op.operands if v not in (op.input, *op.initial)):
        return "its parameters must be constants with values"
    for name, spec in op.PARAMETERS.items():
        value, most = op.parameter(name), op.MODEL.highest(spec, op.options())
        values = literal_value(value) if isinstance(value, SSAValue) else None
        if spec.tau and values is not None and not ((values >= 0) & (values <= most)).all():
            return f"its decays must lie from 0 to {most:g}"
    return neuron_refusal(neuron_rules(op, [0.0] * len(op.STATES))[0])


def _neuron_refusal(op: spike.NeuronOp) -> str | None:
    reason = _model_refusal(op)
    if reason is not None:
        return reason
    if not all(is_known(value) for value in op.initial):
        return (
            "its first potential must be a constant: a circuit keeps potentials by itself, and "
            "clears them before each sample; leave out expose-state"
        )
    shape = dense_type(op.input).get_shape()
    if shape[0] == DYNAMIC:
        return "how many steps a sample has is not known; give timesteps=T"
    readers = [use.operation for use in op.output.uses]
    if len(readers) > 1 and all(isinstance(reader, spike.ToTensorOp) for reader in readers):
        return "its train is read twice; run cse before"
    return None


def _delay_refusal(op: spike.DelayOp) -> str | None:
    if op.initial is not None or op.final is not None:
        return (
            "a delay begins with zeros at each sample and keeps what it holds to itself; leave "
            "out initial and final"
        )
    if op.delays is not None and not is_known(op.delays):
        return "its delays must be constants with values"
    if not isinstance(op.output.type, TensorType):
        return "run expose-trains before"
    return None if holds_integers(op.input) else _FLOATS


def _is_known_product(op: tensor.MatmulOp) -> bool:
    """Whether an op is a product of integers with one known matrix."""
    matrix = literal_value(op.rhs)
    return matrix is not None and matrix.ndim == 2 and holds_integers(op.result)


def _tensors(op: Operation) -> list[AnyTensor]:
    values = (*op.operands, *op.results)
    return [tensor_type(value) for value in values if isinstance(value.type, TensorType)]
