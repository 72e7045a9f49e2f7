"""The C library's `fmod` as a function of the module, exact for all operands.

x = m·2^a and y = n·2^b with integers m, n: the remainder is (m·2^(a - b) mod n)·2^b, with as many
powers of two at a time as an i64 holds beside the digits. `frem` would call the library.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, i64
from xdsl.dialects.llvm import LLVM, FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser

from .floating import format_of

PREFIX = "triton_"
"""In front of the library's name."""

_TEXT = """
llvm.func internal @{name}(%x: {f}, %y: {f}) -> {f} {{
  %zero = llvm.mlir.constant(0) : i64
  %one = llvm.mlir.constant(1) : i64
  %digits = llvm.mlir.constant({digits}) : i64
  %implicit = llvm.mlir.constant({implicit}) : i64
  %mask = llvm.mlir.constant({mask}) : i64
  %magnitude = llvm.mlir.constant({magnitude}) : i64
  %infinity = llvm.mlir.constant({infinity}) : i64
  %step = llvm.mlir.constant({step}) : i64
  %bias = llvm.mlir.constant({bias}) : i64
  %top = llvm.mlir.constant({top}) : i64
  %xi = llvm.bitcast %x : {f} to i{bits}
  %yi = llvm.bitcast %y : {f} to i{bits}
  {widen_x}
  {widen_y}
  %xa = llvm.and %xw, %magnitude : i64
  %ya = llvm.and %yw, %magnitude : i64
  %xbad = llvm.icmp "uge" %xa, %infinity : i64
  %ybad = llvm.icmp "ugt" %ya, %infinity : i64
  %ynull = llvm.icmp "eq" %ya, %zero : i64
  %bad0 = llvm.or %xbad, %ybad : i1
  %bad = llvm.or %bad0, %ynull : i1
  llvm.cond_br %bad, ^invalid, ^numbers
^invalid:
  %product = llvm.fmul %x, %y : {f}
  %nan = llvm.fdiv %product, %product : {f}
  llvm.return %nan : {f}
^numbers:
  %less = llvm.icmp "ult" %xa, %ya : i64
  llvm.cond_br %less, ^same, ^divide
^same:
  llvm.return %x : {f}
^divide:
  %xe0 = llvm.lshr %xa, %digits : i64
  %ye0 = llvm.lshr %ya, %digits : i64
  %xnormal = llvm.icmp "ne" %xe0, %zero : i64
  %ynormal = llvm.icmp "ne" %ye0, %zero : i64
  %xe = llvm.select %xnormal, %xe0, %one : i1, i64
  %ye = llvm.select %ynormal, %ye0, %one : i1, i64
  %xf = llvm.and %xa, %mask : i64
  %yf = llvm.and %ya, %mask : i64
  %xg = llvm.or %xf, %implicit : i64
  %yg = llvm.or %yf, %implicit : i64
  %m = llvm.select %xnormal, %xg, %xf : i1, i64
  %n = llvm.select %ynormal, %yg, %yf : i1, i64
  %distance = llvm.sub %xe, %ye : i64
  %start = llvm.urem %m, %n : i64
  %far = llvm.icmp "ne" %distance, %zero : i64
  llvm.cond_br %far, ^loop(%start, %distance : i64, i64), ^end(%start : i64)
^loop(%rest: i64, %left: i64):
  %most = llvm.call_intrinsic "llvm.umin.i64"(%left, %step) : (i64, i64) -> i64
  %shifted = llvm.shl %rest, %most : i64
  %next = llvm.urem %shifted, %n : i64
  %remaining = llvm.sub %left, %most : i64
  %again = llvm.icmp "ne" %remaining, %zero : i64
  llvm.cond_br %again, ^loop(%next, %remaining : i64, i64), ^end(%next : i64)
^end(%result: i64):
  %whole = llvm.sitofp %result : i64 to {f}
  %exponent = llvm.sub %ye, %top : i64
  %first = llvm.ashr %exponent, %one : i64
  %second = llvm.sub %exponent, %first : i64
  %e1 = llvm.add %first, %bias : i64
  %e2 = llvm.add %second, %bias : i64
  %s1 = llvm.shl %e1, %digits : i64
  %s2 = llvm.shl %e2, %digits : i64
  {narrow_1}
  {narrow_2}
  %f1 = llvm.bitcast %n1 : i{bits} to {f}
  %f2 = llvm.bitcast %n2 : i{bits} to {f}
  %scaled1 = llvm.fmul %whole, %f1 : {f}
  %scaled2 = llvm.fmul %scaled1, %f2 : {f}
  %signed = llvm.call_intrinsic "llvm.copysign.{f}"(%scaled2, %x) : ({f}, {f}) -> {f}
  llvm.return %signed : {f}
}}
"""


def fmod_function(type: Attribute) -> FuncOp:
    """`triton_fmod` of f64 or `triton_fmodf` of f32: x - trunc(x / y)·y, with the sign of x."""
    form = format_of(type)
    bits = 64 if str(type) == "f64" else 32
    wide = bits == 64
    text = _TEXT.format(
        name=f"{PREFIX}fmod{'' if wide else 'f'}",
        f=type,
        bits=bits,
        digits=form.digits,
        implicit=1 << form.digits,
        mask=(1 << form.digits) - 1,
        magnitude=(1 << (bits - 1)) - 1,
        infinity=(2 * form.bias + 1) << form.digits,
        step=63 - form.digits,
        bias=form.bias,
        top=form.bias + form.digits,
        widen_x=_cast("xw", "xi", "zext", bits),
        widen_y=_cast("yw", "yi", "zext", bits),
        narrow_1=_cast("n1", "s1", "trunc", bits),
        narrow_2=_cast("n2", "s2", "trunc", bits),
    )
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(LLVM)
    module = Parser(context, text).parse_module()
    (function,) = module.ops
    assert isinstance(module, ModuleOp) and isinstance(function, FuncOp)
    function.detach()
    return function


def _cast(result: str, source: str, op: str, bits: int) -> str:
    """Between the bits of a float and i64; the same value for f64."""
    if bits == 64:
        return f"%{result} = llvm.bitcast %{source} : {i64} to {i64}"
    kinds = f"i{bits} to i64" if op == "zext" else f"i64 to i{bits}"
    return f"%{result} = llvm.{op} %{source} : {kinds}"
