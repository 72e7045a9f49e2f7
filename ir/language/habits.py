"""What people write who come from Python, PyTorch, MLIR or C, and what it is called here.

Tables of words alone: `scope`, `annotations` and the evaluator look names up in them that mean
nothing, `repairs` does the same for the words that begin a statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .diagnostics import suggest

TYPES: Mapping[str, str] = {
    "BoolTensor": "Tensor<bool>",
    "FloatTensor": "Tensor",
    "LongTensor": "Tensor<int64>",
    "NDArray": "Tensor",
    "array": "Tensor",
    "ndarray": "Tensor",
    "memref": "Tensor",
    "Trit": "trit",
    "Spikes": "SpikeTensor",
    "str": "string",
    "double": "float",
    "number": "float",
    "real": "float",
    "uint": "int",
    "usize": "int",
}
TENSORS: Mapping[str, str] = {
    "Trit": "TernaryTensor",
    "trit": "TernaryTensor",
    "Ternary": "TernaryTensor",
    "Spike": "SpikeTensor",
    "Train": "SpikeTensor",
}
"""Types that have sizes here."""

ELEMENTS: Mapping[str, str] = {
    "float": "float32",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "fp16": "float16",
    "fp32": "float32",
    "bf16": "bfloat16",
    "half": "float16",
    "double": "float64",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "byte": "int8",
    "boolean": "bool",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ternary": "trit",
}
NAMES: Mapping[str, str] = {
    "True": "true",
    "False": "false",
    "TRUE": "true",
    "FALSE": "false",
    "Dense": "Linear",
    "FullyConnected": "Linear",
    "BitLinear": "TernaryLinear",
    "Conv": "Conv2d",
    "Conv2D": "Conv2d",
    "BatchNormalization": "BatchNorm2d",
    "LayerNormalization": "LayerNorm",
    "MultiheadAttention": "MultiHeadAttention",
    "ReLU": "relu",
    "Leaky": "LIF",
    "cat": "concat",
    "concatenate": "concat",
    "dot": "matmul",
    "mm": "matmul",
    "bmm": "matmul",
    "view": "reshape",
    "clip": "clamp",
    "amax": "max",
    "amin": "min",
    "swish": "silu",
    "logistic": "sigmoid",
}
ARGUMENTS: Mapping[str, str] = {
    "dim": "axis",
    "dims": "axes",
    "axes": "axis",
    "keepdim": "keepdims",
    "kernel_size": "kernel",
    "filters": "out_channels",
    "units": "out_features",
    "threshold_voltage": "threshold",
    "v_th": "threshold",
    "time_steps": "timesteps",
    "steps": "timesteps",
    "T": "timesteps",
    "method": "scheme",
    "normalized_shape": "features",
    "beta": "decay",
}
METHODS: Mapping[str, str] = {
    "T": "transpose",
    "t": "transpose",
    "cat": "concat",
    "clip": "clamp",
    "view": "reshape",
}
"""Members of tensors elsewhere that have another name here as functions of the tensor."""

MEMBERS = ("self", "this", "cls")
MODIFIERS = (
    "abstract",
    "async",
    "export",
    "extern",
    "final",
    "inline",
    "mut",
    "override",
    "private",
    "protected",
    "pub",
    "public",
    "static",
    "var",
    "virtual",
)
"""Words before a keyword elsewhere, or behind `let`."""

MODULES = (
    "F",
    "functional",
    "jax",
    "jnp",
    "keras",
    "math",
    "nn",
    "np",
    "numpy",
    "snn",
    "tf",
    "torch",
)
"""What stands before the dot elsewhere; nothing does here."""

NOTHING: Mapping[str, str] = {
    "None": "leave the argument out, or write false for an optional tensor",
    "null": "leave the argument out, or write false for an optional tensor",
    "nil": "leave the argument out, or write false for an optional tensor",
    "print": "leave it out: 'triton run' prints results, 'triton-opt' the program",
    "len": "sizes are the names in the type of the argument",
    "isinstance": "leave it out: types are known while compiling",
    "super": "leave it out: a layer has no base",
    "int": 'write cast(…, dtype="int32") for a tensor',
    "float": 'write cast(…, dtype="float32") for a tensor',
    "pass": "leave it out: a block may be empty",
    "break": "leave it out: loops are unrolled; choose with if",
    "continue": "leave it out: loops are unrolled; choose with if",
    "Dropout": "leave it out: a program computes what a trained network does",
    "Sequential": "write let layers = [ … ], and for layer in layers { x = layer(x) }",
    "ModuleList": "write let layers = [ … ]",
    "Parameter": "write param NAME: Tensor[…]",
    "Optional": "every argument is given: leave it out, or make another function",
    "Union": "an argument has one type: declare a function for each",
    "List": "a list of sub-layers is written let layers = [ … ], several results [a, b]",
    "list": "a list of sub-layers is written let layers = [ … ], several results [a, b]",
    "Tuple": "leave the type of the result out where there are several",
    "tuple": "leave the type of the result out where there are several",
    "Any": "write Tensor[_x] for any shape",
    "add": "write a + b",
    "sub": "write a - b",
    "subtract": "write a - b",
    "mul": "write a * b",
    "multiply": "write a * b",
    "div": "write a / b",
    "divide": "write a / b",
    "enumerate": "write for i in range(n) { … } and index the list",
    "zip": "write for i in range(n) { … } and index the lists",
}
"""Names with no counterpart: what to do instead."""

STATEMENTS: Mapping[str, str] = {
    "assert": "leave it out: shapes are checked while compiling",
    "raise": "leave it out: what cannot be computed is refused while compiling",
    "del": "leave it out: a tensor lives as long as it is used",
    "global": "leave it out: write const at the top level",
    "print": "leave it out: 'triton run' prints results, 'triton-opt' the program",
    "yield": "return a list of tensors instead",
    "async": "leave it out",
    "await": "leave it out",
    "with": "leave the 'with' and its braces out",
    "try": "leave it out: nothing fails while a program runs",
    "while": "write for NAME in range(…) { … }",
    "do": "write for NAME in range(…) { … }",
    "switch": "write if … { … } else if … { … }",
    "match": "write if … { … } else if … { … }",
    "lambda": "declare a function: fn f(y: Tensor[_y]) -> Tensor[_y] { return … }",
}
"""Words that begin a statement elsewhere; a statement that is left out is deleted by the fix."""


def nearest(name: str, candidates: Iterable[str], *tables: Mapping[str, str]) -> str | None:
    """`"did you mean 'x'?"`, by the tables first and then by spelling."""
    known = set(candidates)
    for table in tables:
        found = table.get(name)
        if found is not None and found.partition("<")[0] in known:
            return f"did you mean '{found}'?"
    return suggest(name, known)
