"""The type of trains, dt, and that every op with any properties reads as it was printed."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.builder import Builder
from xdsl.dialects.builtin import FloatAttr, ModuleOp, TensorType, f32, f64, i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from triton_dsl.dialects import spike
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.dialects.shapes import DYNAMIC, ShapeError, compatible
from triton_dsl.dialects.spike.types import dense_type, time_first
from triton_dsl.dialects.ternary import trit
from triton_dsl.ir.errors import SourceError, TritonError, VerifyError

CONTEXT = triton_context()

SIZES = st.sampled_from([DYNAMIC, 0, 1, 2, 16, 784])


def printed(value: Any, *, generic: bool = False) -> str:
    stream = StringIO()
    printer = Printer(stream, print_generic_format=generic)
    if isinstance(value, Operation):
        printer.print_op(value)
    else:
        printer.print_attribute(value)
    return stream.getvalue()


def check_round_trip(module: ModuleOp) -> None:
    verify_module(module)
    for generic in (False, True):
        again = parse_module(printed(module, generic=generic), ctx=CONTEXT)
        assert again.is_structurally_equivalent(module)
        assert printed(again, generic=generic) == printed(module, generic=generic)


@given(st.lists(SIZES, min_size=1, max_size=6))
def test_types_read_as_they_were_printed(shape: list[int]) -> None:
    type = spike.TrainType(shape)
    function = FuncOp("f", ([type], [type]))
    function.body.block.add_op(ReturnOp(*function.args))
    check_round_trip(ModuleOp([function]))
    assert type.get_shape() == tuple(shape)


def test_how_types_look() -> None:
    assert printed(spike.train(32, DYNAMIC, 784)) == "!spike.train<32x?x784>"
    with pytest.raises(SourceError, match="expects a time axis"):
        parse_module("func.func private @f(!spike.train<>)")
    with pytest.raises(SourceError):
        parse_module("func.func private @f(!spike.train<4xf32>)")


def test_types_agree_where_both_know() -> None:
    assert compatible(spike.train(4, DYNAMIC), spike.train(DYNAMIC, 3))
    assert not compatible(spike.train(4, 2), spike.train(4, 3))
    assert not compatible(spike.train(4), spike.train(4, 1))
    assert not compatible(spike.train(4), TensorType(f32, [4]))
    assert not compatible(TensorType(f32, [4]), spike.train(4))


def test_trains_in_memory() -> None:
    function = FuncOp("f", ([spike.train(4, 2), TensorType(f32, []), f32], []))
    train, scalar, number = function.args
    assert str(dense_type(train)) == "tensor<4x2xi1>"
    with pytest.raises(ShapeError, match="expects time first and rank 1 or more"):
        time_first(scalar)
    with pytest.raises(ShapeError, match="expects a tensor or a spike train, got f32"):
        dense_type(number)


def function_of(op: str, dt: str) -> str:
    return f"""func.func @forward(%x: tensor<4x2xf32>) attributes {{spike.dt = {dt}}} {{
  {op}
  func.return
}}"""


LIF = "%s = spike.lif %x {beta = 0.5 : f64} : (tensor<4x2xf32>) -> !spike.train<4x2>"


def test_the_time_step_stands_on_the_function() -> None:
    module = parse_module(function_of(LIF, "1.0e-3 : f64"))
    (op,) = (op for op in module.walk() if op.name == "spike.lif")
    assert spike.time_step(op) == 1e-3
    assert spike.time_step(op.clone()) is None
    for dt in ("0.0 : f64", "-1.0 : f64", "1.0 : f32", "1 : i64", "0x7FF0000000000000 : f64"):
        with pytest.raises(VerifyError, match="a positive number of seconds of f64"):
            parse_module(function_of(LIF, dt))


NUMBER = st.floats(-8, 8)
SHARE = st.floats(0, 1)


def parameter(data: st.DataObject, name: str, values: SSAValue) -> Any:
    """A number, a value for each neuron, or nothing where there is a default."""
    decay = name in ("beta", "alpha", "rho")
    choices: list[st.SearchStrategy[Any]] = [SHARE if decay else NUMBER, st.just(values)]
    if not decay and name != "kappa":
        choices.append(st.none())
    return data.draw(st.one_of(*choices), name)


@settings(max_examples=25)
@given(st.data())
def test_neurons_read_as_they_were_printed(data: st.DataObject) -> None:
    kinds = [spike.LifOp, spike.IntegrateFireOp, spike.CubaLifOp, spike.LeakyIntegratorOp,
             spike.AdaptiveLifOp, spike.SigmaDeltaOp]  # fmt: skip
    kind: Any = data.draw(st.sampled_from(kinds))
    sizes = [data.draw(SIZES), data.draw(SIZES), 3]
    step = TensorType(f64, sizes[1:])
    states = [step] * len(kind.STATES)
    function = FuncOp("f", ([TensorType(f64, sizes), TensorType(f64, [3]), *states], []))
    x, values, *initial = function.args
    options: dict[str, Any] = {n: parameter(data, n, values) for n in kind.PARAMETERS}
    options["final"] = data.draw(st.booleans())
    options["initial"] = initial if data.draw(st.booleans()) else ()
    fires: bool = issubclass(kind, spike.FiringOp)
    if fires:
        options["compare"] = data.draw(st.sampled_from(["gt", "ge"]))
        options["reset"] = data.draw(st.sampled_from(["subtract", "to_value", "none"]))
        if options["reset"] != "to_value":
            options["v_reset"] = None
    function.body.block.add_op(op := kind(x, **options))
    function.body.block.add_op(ReturnOp())
    check_round_trip(ModuleOp([function]))
    for name in kind.PARAMETERS:
        expected = kind.PARAMETERS[name].default if options[name] is None else options[name]
        assert op.parameter(name) == expected


@settings(max_examples=25)
@given(st.data())
def test_other_ops_read_as_they_were_printed(data: st.DataObject) -> None:
    t, n = data.draw(SIZES), data.draw(SIZES)
    function = FuncOp(
        "f",
        (
            [
                spike.train(t, n, 8, 6, 6),
                TensorType(f32, [t, n, 8, 6, 6]),
                data.draw(st.sampled_from([TensorType(e, [4, 8, 3, 3]) for e in (trit, i8, f32)])),
                TensorType(f32, [4]),
                TensorType(i32, [8, 6, 6]),
                spike.train(t, n, 5, 8),
            ],
            [],
        ),
    )
    s, x, w, vector, delays, q = function.args
    builder = Builder(InsertPoint.at_end(function.body.block))
    graded = data.draw(st.booleans()) and w.type != TensorType(i8, [4, 8, 3, 3])
    builder.insert(
        spike.ConvOp(
            x if graded else s,
            w,
            scale=vector if data.draw(st.booleans()) or not graded else None,
            bias=vector if data.draw(st.booleans()) else None,
            padding=data.draw(st.sampled_from([(0, 0, 0, 0), (1, 2, 1, 0)])),
        )
    )
    kernel = data.draw(st.sampled_from([(1, 1), (2, 3), (6, 6)]))
    builder.insert(spike.AvgPoolOp(x, kernel, (1, 1), count_include_pad=data.draw(st.booleans())))
    builder.insert(spike.MaxPoolOp(s, kernel))
    steps = data.draw(st.integers(0, 9))
    builder.insert(spike.DelayOp(s, steps, delays=delays, final=data.draw(st.booleans())))
    attention: dict[str, Any] = {
        "kind": data.draw(st.sampled_from(["ssa", "sdsa"])),
        "heads": data.draw(st.sampled_from([1, 2, 8])),
        "scale": data.draw(st.none() | NUMBER),
        "tau": data.draw(st.none() | st.floats(1, 9)),
        "threshold": data.draw(st.none() | NUMBER),
        "final": data.draw(st.booleans()),
    }
    builder.insert(spike.AttentionOp(q, q, q, **attention))
    scheme = data.draw(st.sampled_from(["rate", "regular", "latency", "direct", "phase"]))
    encode: dict[str, Any] = {"seed": data.draw(st.integers(0, 2**63 - 1))}
    if scheme != "rate":
        encode = {}
    if scheme in ("latency", "phase"):
        encode = {"period": data.draw(st.integers(1, 31))}
    builder.insert(spike.EncodeOp(x, scheme, 40 if scheme != "phase" else 9, start=steps, **encode))
    builder.insert(ReturnOp())
    function.attributes[spike.TIME_STEP] = FloatAttr(data.draw(st.floats(1e-9, 1.0)), f64)
    check_round_trip(ModuleOp([function]))


TEXTS = [
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[1] / "filecheck" / "dialects" / "spike").iterdir())
    if not path.stem.endswith("_invalid")
]


@settings(max_examples=60)
@given(st.data())
def test_mutated_text_gives_a_module_or_an_error(data: st.DataObject) -> None:
    functions = data.draw(st.sampled_from(TEXTS)).split("\nfunc.func ")
    text = data.draw(st.sampled_from([f"func.func {f}" for f in functions[1:]] or functions))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 4))
        inserted = data.draw(st.text('%@!<>{}()[]:,=-?x 0123fi"', max_size=3))
        text = text[:start] + inserted + text[start + length :]
    try:
        parse_module(text, ctx=CONTEXT).verify()
    except TritonError as error:
        assert ": error: " in str(error)


def test_builders_refuse_what_the_verifier_refuses() -> None:
    function = FuncOp("f", ([TensorType(f32, [4, 2])], []))
    (x,) = function.args
    with pytest.raises(VerifyException, match=r"'spike\.lif' expects beta as a finite number"):
        spike.LifOp(x, 1.5)
    with pytest.raises(VerifyException, match="expects 1 initial state"):
        spike.LifOp(x, 0.5, initial=[x, x])
