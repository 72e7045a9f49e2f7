"""Model-local functions by which a file asks the processor how it adds products of bytes.

`int8.exact` multiplies bytes whose sums of pairs leave 16 bits, by each kernel of ONNX Runtime that
may saturate, and tells whether all sums are right. `int8.matmul`, `int8.conv` and `int8.weight`
take INT8 weights as they are where that is so, and as UINT8, 128 more, where it is not:
`byte_weights` says why. Nothing of this is left in a session: the answer is constant, so that the
runtime computes it once, when it loads the file, and keeps the nodes of one branch alone. Names
are short, since small files carry them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .graph import DOMAIN, Element, Graph, Node

if TYPE_CHECKING:
    from onnx import FunctionProto

LEAST_OPSET = 15
"""Model-local functions need IR version 8, which came with this version."""

EXACT = "int8.exact"
"""The function that asks, and the value that holds the answer."""

_WINDOW = ", ".join(
    [f"{name}: ints = @{name}" for name in ("pads", "strides", "dilations")]
    + ["group: int = @group"]
)

_WIDENED = """
      m = Constant <value = int32 {128}> ()
      i = Cast <to = 6> (w)
      j = Add (i, m)
      u = Cast <to = 2> (j)
"""
"""The UINT8 levels `u` for the INT8 ones `w`."""

# Bytes of 255 and of 0 times -128: pairs of products that 16 bits do not hold; the zeros on
# processors that turn the sign of bytes first. One row and several have kernels of their own.
_ASK = """f () => (e) {
  s = Constant <value_ints = [64, 64]> ()
  r = Constant <value_ints = [1, 64]> ()
  w = ConstantOfShape <value = int8[1] {-128}> (s)
  a = ConstantOfShape <value = uint8[1] {255}> (s)
  b = ConstantOfShape <value = uint8[1] {0}> (s)
  c = ConstantOfShape <value = uint8[1] {255}> (r)
  x = MatMulInteger (a, w)
  y = MatMulInteger (b, w)
  z = MatMulInteger (c, w)
  p = Add (x, y)
  q = Add (p, z)
  k = Constant <value = int32 {-4177920}> ()
  o = Equal (q, k)
  t = Cast <to = 6> (o)
  m = ReduceMin <keepdims = 0> (t)
  e = Cast <to = 9> (m)
}"""

_MATMUL = f"""f (x, w, z, e) => (y) {{
  y = If (e) <
    then_branch = g () => (int32[] n) {{
      n = MatMulInteger (x, w, z)
    }},
    else_branch = g () => (int32[] n) {{{_WIDENED}
      c = Constant <value = uint8 {{128}}> ()
      n = MatMulInteger (x, u, z, c)
    }}
  >
}}"""

_CONV = f"""f <pads, strides, dilations, group> (x, a, z, w, s, b, o, c, e) => (y) {{
  y = If (e) <
    then_branch = g () => (uint8[] n) {{
      h = Constant <value = int8 {{0}}> ()
      n = QLinearConv <{_WINDOW}> (x, a, z, w, s, h, b, o, c)
    }},
    else_branch = g () => (uint8[] n) {{{_WIDENED}
      h = Constant <value = uint8 {{128}}> ()
      n = QLinearConv <{_WINDOW}> (x, a, z, u, s, h, b, o, c)
    }}
  >
}}"""

_WEIGHT = f"""f <axis> (w, s, z, e) => (y) {{
  y = If (e) <
    then_branch = g () => (float[] n) {{
      n = DequantizeLinear <axis: int = @axis> (w, s, z)
    }},
    else_branch = g () => (float[] n) {{{_WIDENED}
      k = Cast <to = 6> (z)
      l = Add (k, m)
      v = Cast <to = 2> (l)
      n = DequantizeLinear <axis: int = @axis> (u, s, v)
    }}
  >
}}"""

TEXTS = {EXACT: _ASK, "int8.matmul": _MATMUL, "int8.conv": _CONV, "int8.weight": _WEIGHT}
"""By name, in the text form of ONNX."""


def function(name: str, opset: int) -> FunctionProto:
    """A function of `TEXTS`."""
    from onnx import parser

    head = f'<domain: "{DOMAIN}", opset_import: ["" : {opset}]>\n'
    made = parser.parse_function(head + TEXTS[name])
    made.name = name
    return made


def asked(graph: Graph) -> str:
    """The answer of the processor; `ask` puts the question in front of the graph."""
    graph.elements[EXACT] = Element.BOOL
    return EXACT


def ask(graph: Graph) -> None:
    """Put the question in front of a graph in which it matters."""
    if any(EXACT in node.inputs for node in graph.all_nodes()):
        graph.nodes.insert(0, Node(EXACT, [], [EXACT], {}, DOMAIN))
