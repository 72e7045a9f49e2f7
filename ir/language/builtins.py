"""The built-in functions, and what an `Operation` of each carries.

**Operands** stand in the order of the signature. An optional tensor that the call leaves out is not
among them: the attribute `has_NAME` (`has_bias`, `has_weight`, …) says whether it is there. A
*setting* (`scale` of `quantize`, `tau` of `lif`) is a number or a tensor: a number is the attribute
of that name; a tensor is an operand, `has_NAME` is true and the attribute is `None`.

**Attributes** are everything else, evaluated, defaults filled in: `int float bool str`, `None` for
absent, tuples of those. A size may be a symbolic `Dim` where a shape is meant. Axes are counted
from the front. Operands of one element-wise function always have one element type: `cast`
operations stand where the program mixes types.

Operators, and operations that only the elaborator writes:

| function | operands | attributes |
| --- | --- | --- |
| add sub mul div mod | x, y | |
| neg not | x (`neg` of a TernaryTensor is one) | |
| and or | x, y (bool) | |
| compare | x, y | predicate: eq ne lt le gt ge |
| matmul | x, y (either may be ternary, x may be a spike train) | |
| cast | x (dense or ternary) | dtype |
| slice | x | starts stops steps, one a axis; stop None: to the end; negative: from the end |
| squeeze unsqueeze | x | axes |

Ternary:

| function | operands | attributes |
| --- | --- | --- |
| ternarize | x | threshold (float or None: by `rule`) scale mode rule axis seed |
| sign pack | x | |
| unpack | x (int8 bytes) | shape |
| ternary_matmul | x, weight, [scale] | has_scale |
| random_ternary | | shape seed |

`ternarize` with `scale="none"` gives a TernaryTensor; with `"tensor"` or `"channel"` (along `axis`)
the dense product of trits and scale. `rule` is `twn` (Δ = 0.7 mean|x|) or `absmean`
(round(x / mean|x|)); a given threshold wins. `pack` gives `Tensor<int8>[ceil(n / 4)]`.

Arithmetic and activation:

| function | operands | attributes |
| --- | --- | --- |
| abs exp log sqrt cos sin round floor | x | |
| maximum minimum | x, y | |
| where | condition, x, y | |
| clamp hard_tanh | x | min max (float; None for `clamp` only: no bound) |
| relu relu6 silu sigmoid tanh hard_swish | x | |
| leaky_relu | x | negative_slope |
| gelu | x | approximate: none tanh |
| softmax log_softmax | x | axis |

Linear and normalisation:

| function | operands | attributes |
| --- | --- | --- |
| linear | x, weight [in, out], [bias] | has_bias |
| conv1d conv2d | x, weight, [bias] | has_bias stride padding dilation (tuples) groups |
| depthwise_conv2d | x, weight [C*m, 1, KH, KW], [bias] | has_bias stride padding dilation |
| einsum | tensors | equation (without blanks, with `->`) |
| batch_norm | x, running_mean, running_var, [weight], [bias] | has_weight has_bias eps axis |
| layer_norm | x, [weight], [bias] | has_weight has_bias eps axis (first normalised axis) |
| rms_norm | x, [weight] | has_weight eps axis (first normalised axis) |

A spike train as `x` of `matmul linear conv1d conv2d depthwise_conv2d ternary_matmul` gives the
dense current of every step: `[T, N, …]`; `batch_norm` and `global_avg_pool2d` take spikes as
numbers.

Shape, pooling, reduction:

| function | operands | attributes |
| --- | --- | --- |
| reshape expand | x | shape (every size given; `Dim` where symbolic) |
| flatten | x | start end (both included) |
| permute | x | axes |
| transpose | x | axes (the whole permutation) |
| concat stack | tensors | axis |
| split | x | sections (sizes) axis; results by `Projection` |
| pad | x | low high (one an axis) value |
| gather | x, indices | axis |
| positions | x | axis |
| max_pool2d | x | kernel stride padding (pairs) |
| avg_pool2d | x | kernel stride padding (pairs) count_include_pad |
| global_avg_pool2d | x | |
| sum mean max min | x | axes keepdims |
| argmax | x | axis keepdims |

Quantisation:

| function | operands | attributes |
| --- | --- | --- |
| quantize | x, [scale], [zero_point] | bits scale has_scale zero_point has_zero_point axis |
| dequantize | x, [scale], [zero_point] | scale has_scale zero_point has_zero_point axis |

`axis` is `None` for one scale a tensor.

Spiking (time is the first axis):

| function | operands | attributes |
| --- | --- | --- |
| encode | x | timesteps scheme seed period threshold dt |
| decode | s | scheme readout |
| *neurons* | x, [its settings], [initial] | its settings, each with `has_`, and its options |
| spiking_attention | query, key, value | heads scale tau threshold kind reset compare |
| temporal_batch_norm | as batch_norm | as batch_norm, threshold alpha |
| delay | x | steps |

`initial` is the potential before the first step; currents and adaptations begin at 0. `period`,
`threshold` and `dt` of `encode` are `None` where they have no meaning or are not given.

*Neurons* are each model of `ir.neurons` that is defined on floats, with its parameters as settings;
time constants in steps stand there for decays.
"""

from __future__ import annotations

from collections.abc import Mapping

from .rules_elementwise import ELEMENTWISE, FOLDS
from .rules_linear import LINEAR
from .rules_neurons import NEURONS
from .rules_shape import SHAPE
from .rules_spiking import SPIKING
from .signatures import Builtin, builtins_of

BUILTINS: Mapping[str, Builtin] = {
    builtin.name: builtin
    for builtin in (
        *(b for table in (ELEMENTWISE, LINEAR, SHAPE, SPIKING) for b in builtins_of(table, FOLDS)),
        *NEURONS,
    )
}
"""Every built-in function by name."""

COMPILE_TIME_FUNCTIONS = ("range",)
"""Functions of compile-time values only, which never become operations."""

GROUPS = (
    "ternary",
    "arithmetic",
    "activation",
    "linear",
    "shape",
    "pooling, reduction",
    "normalisation",
    "quantisation",
    "spiking",
)
"""The rows of the table of built-in functions."""
