"""Why a program cannot become hardware: its ops, its arguments, how its frames come.

Everything is refused at once. Not here: the rules of ops on tensors (`circuit_rules`).
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr, TensorType, i1
from xdsl.ir import Operation, SSAValue

from ....dialects import spike, tensor, ternary
from ....dialects.elements import numpy_dtype
from ....dialects.inference import tensor_type
from ....dialects.shapes import DYNAMIC, AnyTensor, is_float
from ....dialects.spike.types import dense_type
from ....ir.errors import OptionError, UnsupportedError
from ....ir.locations import location_text
from ....ir.neurons import MODELS
from ....ir.value_names import argument_names
from ....passes.analysis.argument_bounds import noted_bounds
from ....passes.analysis.compile_time import is_literal, literal_value
from ....passes.quantize_neurons.quantize_neurons import INTEGER_FORMS
from ....passes.streamline.streamline import STAYS
from .circuit_rules import FLOATS, FLOATS_HINT, holds_integers, is_known, refusal
from .folding.forms import has_form
from .ports import takes_input_bits
from .stages.neuron_rules import neuron_rules
from .stages.neuron_rules import step_refusal as neuron_refusal
from .stages.partition import has_trains, is_timed
from .stages.products import ImageOp, WindowOp
from .stages.recurrence import is_state

MOST_NUMBERS = 1 << 24
"""Of a frame: one of more takes longer to time, position by position, than to refuse."""

Problem = tuple[str, str, str]
"""The name of an op, where it stands, and why it is refused."""


def check_program(function: func.FuncOp, input_bits: int | None) -> None:
    """Refuse what cannot become hardware.

    Args:
        input_bits: of inputs of integer type, where they are given.

    Raises:
        UnsupportedError: names each op and why.
        OptionError: no argument takes `input_bits`.
    """
    problems: list[Problem] = []
    between: list[Problem] = []
    moves: list[Problem] = []
    timed = has_trains(function)
    for op in function.body.walk():
        if is_literal(op) or isinstance(op, func.ReturnOp):
            continue
        reason = _refusal(function, op) if timed else _tensor_refusal(op)
        why = op.attributes.get(STAYS)
        if reason in (None, FLOATS) and isinstance(why, StringAttr):
            listed = moves if reason is None else problems
            listed.append((op.name, location_text(op), f"{FLOATS}: {why.data}"))
        elif reason is not None:
            listed = between if reason == FLOATS else problems
            listed.append((op.name, location_text(op), reason))
    if between and not problems:
        problems = moves
    floats = bool(between) or any(reason.startswith(f"{FLOATS}:") for _, _, reason in problems)
    # Where it is known which ops have no integer form, the others follow from them.
    problems = problems or between
    for index, name in enumerate(argument_names(function)):
        reason = _misfit(function, index, input_bits)
        if reason is not None:
            problems.append(("func.func", location_text(function), f"'{name}': {reason}"))
    if problems:
        raise UnsupportedError("verilog", problems, hint=FLOATS_HINT if floats else "")
    indices = range(len(function.args))
    if input_bits is not None and not any(takes_input_bits(function, i) for i in indices):
        raise OptionError(
            f"input-bits={input_bits} is given, and quantisers say what the arguments hold "
            f"({', '.join(argument_names(function))}); leave it out"
        )


def check_frames(function: func.FuncOp) -> None:
    """Refuse programs whose frames do not come one after another, beat by beat.

    Raises:
        UnsupportedError: says why.
    """
    problems: list[Problem] = []
    place = location_text(function)
    shapes = [tensor_type(argument).get_shape() for argument in function.args]
    timed = [is_timed(function, index) for index in range(len(shapes))]
    if any(timed):
        steps = {shape[0] for shape, t in zip(shapes, timed, strict=True) if t}
        looked_at = any(isinstance(op, ImageOp) for op in function.body.block.ops)
        if len(steps) > 1 or not all(timed):
            problems.append(("func.func", place, "arguments come in frames of different lengths"))
        if len(set(map(len, shapes))) > 1:
            problems.append(("func.func", place, "trains of different ranks; reshape one of them"))
        if looked_at and len({shape[3:] for shape in shapes}) > 1:
            problems.append(("func.func", place, "images of different sizes"))
    elif not has_trains(function):
        if any(shape[:1] not in ((DYNAMIC,), (1,)) for shape in shapes):
            reason = "its batch is fixed, and not known to be samples one by one: see free-batch"
            problems.append(("func.func", place, reason))
        if len({shape[2:] for shape in shapes}) > 1:
            reason = "inputs of different sizes come in different beats"
            problems.append(("func.func", place, reason))
    returned = function.body.block.last_op
    assert returned is not None
    if any(is_literal(value.owner) for value in returned.operands):
        problems.append(("func.return", location_text(returned), "a result is a constant"))
    if problems:
        raise UnsupportedError("verilog", problems)


def _tensor_refusal(op: Operation) -> str | None:
    """Why an op on tensors cannot become hardware; `None` if it can."""
    if has_form(op) and isinstance(op, ternary.MatmulOp | tensor.MatmulOp):
        return None
    if not isinstance(op, WindowOp):
        return refusal(op)
    if not holds_integers(op.operands[0]):
        return FLOATS
    vectors = (2,) if isinstance(op, tensor.PadToOp) else ()
    if tensor_type(op.operands[0]).get_num_dims() not in (*vectors, 3, 4):
        return "only images of one or two axes become streams"
    if isinstance(op, ternary.ConvOp | tensor.ConvOp) and not all(map(is_known, op.operands[1:])):
        return "its weights and parameters must be constants with values"
    if isinstance(op, tensor.PadToOp) and any(side.get_values()[0] for side in (op.low, op.high)):
        return "padding of the batch"
    return None


def _refusal(function: func.FuncOp, op: Operation) -> str | None:
    """Why an op of a program with trains cannot become hardware; `None` if it can."""
    around = op.parent_op()
    if around is not function:
        in_loop = isinstance(around, spike.ScanOp) and around.parent_op() is function
        return _refusal_in_loop(op) if in_loop else None  # the op around it is refused
    if has_form(op):
        return "layers of spiking programs are not folded; leave out fold, targets and folding"
    match op:
        case spike.NeuronOp():
            return _neuron_refusal(op)
        case spike.ScanOp():
            return _scan_refusal(op)
        case spike.ToTensorOp() if not isinstance(op.operand.owner, spike.FromTensorOp):
            return None  # a neuron or a loop made the train, or an op that is refused itself
        case spike.ConvOp() | spike.MaxPoolOp():
            return _image_refusal(op)
        case spike.FromTensorOp() if _feeds_steps(op):
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
            reason = _tensor_refusal(op)
            floats = reason is not None and any(is_float(v) for v in _tensors(op))
            return _FLOATS if floats else reason


def _refusal_in_loop(op: Operation) -> str | None:
    """Why an op cannot be part of a step of a loop."""
    match op:
        case spike.YieldOp():
            return None
        case spike.ScanOp():
            return "a loop in a loop has no circuit"
        case spike.NeuronOp() if not op.initial or not all(map(is_state, op.initial)):
            return "its potential in a loop must be that of the step before"
        case spike.NeuronOp():
            return _model_refusal(op)
        case tensor.MatmulOp() if _is_known_product(op):
            return None
        case spike.LinearOp() if op.scale is not None:
            return _FLOATS
        case spike.LinearOp() if not is_known(op.weight):
            return "its weights must be constants with values"
        case spike.LinearOp():
            return None if holds_integers(op.result) else _FLOATS
        case spike.DelayOp() if not is_state(op.initial):
            return "what it delays in a loop must be of the steps before"
        case spike.DelayOp() if op.delays is not None and not is_known(op.delays):
            return "its delays must be constants with values"
        case spike.DelayOp() | spike.ToTensorOp() | spike.FromTensorOp():
            return None
        case _ if op.name.startswith("spike."):
            return _WHY_NOT.get(op.name, "no circuit for it")
        case _:
            floats = any(is_float(value) for value in _tensors(op))
            return _FLOATS if floats else refusal(op)


def _misfit(function: func.FuncOp, index: int, input_bits: int | None) -> str | None:
    """Why an argument cannot come in beats; `None` if it can."""
    argument = function.args[index]
    type = argument.type
    if not isinstance(type, TensorType):
        return f"an argument is {type}, not a tensor"
    shape, timed = tensor_type(argument).get_shape(), is_timed(function, index)
    numbers = prod(size for size in shape if size != DYNAMIC)
    if numbers == 0:
        return f"an argument is {type}, which holds no number"
    if numbers > MOST_NUMBERS:
        return (
            f"an argument is {type}; a frame of {numbers:,} numbers has no circuit, only one of "
            f"{MOST_NUMBERS:,} at most: give it parts of it"
        )
    if not holds_integers(argument):
        return f"an argument is {type}; " + (
            _FLOATS if timed else "hardware takes integers: quantise it"
        )
    if timed and shape[0] == DYNAMIC:
        return f"an argument is {type}; say how many steps a sample has: timesteps=T"
    narrowed = input_bits is not None or noted_bounds(argument) is not None
    if numpy_dtype(tensor_type(argument).element_type) == np.uint64 and not narrowed:
        return f"an argument is {type}; bounds have 64 bits with the sign: give input-bits"
    if DYNAMIC in shape[1 + timed :]:
        which = "axis after time" if timed else "leading axis"
        return f"an argument is {type}; only the {which} may be free"
    return None


_FLOATS = "floating point; run quantize-spike and quantize-neurons before"
_NO_STEPS = "how many steps a sample has is not known; give timesteps=T"

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


def _scan_refusal(op: spike.ScanOp) -> str | None:
    """Why a loop cannot become a circuit, apart from the ops in it; `None` if it can."""
    if op.fixed:
        return "a value that is the same at all steps must be a constant"
    if any(state.first_use is not None for state in op.final):
        return "states after the last step have no circuit; read the train, or a sum of it"
    if any(not is_known(state) for state in op.states):
        return "its first states must be constants; leave out expose-state"
    steps = dense_type(op.runs[0]).get_shape()[0]
    return _NO_STEPS if steps < 0 else None


def _image_refusal(op: ImageOp) -> str | None:
    """Why an op on images of spikes cannot become hardware; `None` if it can."""
    shape = dense_type(op.operands[0]).get_shape()
    if shape[0] == DYNAMIC:
        return _NO_STEPS
    if DYNAMIC in shape[2:]:
        return "the sizes of its images are not known; fix them with infer-shapes"
    if isinstance(op, spike.MaxPoolOp):
        return None
    if op.scale is not None or not holds_integers(op.result) or not holds_integers(op.input):
        return _FLOATS
    if not is_known(op.weight) or (op.bias is not None and not is_known(op.bias)):
        return "its weights and bias must be constants with values"
    return None


def _feeds_steps(op: spike.FromTensorOp) -> bool:
    """Whether an op only makes truth values the steps of loops, or images of which windows are."""
    readers = [use.operation for use in op.result.uses]
    truth = tensor_type(op.operand).element_type == i1
    return truth and all(isinstance(reader, ImageOp | spike.ScanOp) for reader in readers)


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
        return _NO_STEPS
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
