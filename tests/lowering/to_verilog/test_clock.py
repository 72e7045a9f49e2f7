"""Networks of unrolled stages reach the clock that they are asked for, and stay what they are."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.tools.compilation import warn_missed_clock

from .images import ImageProgram

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
SAME = (1, 1, 1, 1)


def residual() -> ImageProgram:
    """Convolutions, a residual sum, pooling and a product on the frame."""
    written = ImageProgram(2, 3, 8, 8, "i8")
    written.conv(6, (3, 3), padding=SAME, fused=True)
    mark = written.mark()
    written.conv(6, (3, 3), padding=SAME, fused=True)
    written.binary("add", mark)
    written.unary("relu")
    written.pool((2, 2), (2, 2), (0, 0, 0, 0))
    written.unary("flatten", shape=(96,), attr="{axis = 1 : i64}")
    written.unary("convert", "i32")
    written.matmul(8)
    return written


def depthwise() -> ImageProgram:
    """A convolution of each channel and one of single positions, twice."""
    written = ImageProgram(3, 4, 8, 8, "i8")
    for strides in ((1, 1), (2, 2)):
        channels = written.shape[0]
        written.conv(channels, (3, 3), strides, SAME, groups=channels, fused=True)
        written.conv(8, (1, 1), fused=True)
    return written


def pooled() -> ImageProgram:
    """Maxima with and without padding, of bytes too, around a convolution with strides."""
    written = ImageProgram(11, 3, 8, 8, "i8")
    written.pool((2, 2), (2, 2), (0, 0, 0, 0))
    written.conv(4, (3, 3), (2, 2), SAME, fused=True)
    written.pool((3, 3), (1, 1), SAME)
    return written


def averaged() -> ImageProgram:
    """A sum over all positions, and a product behind it."""
    written = ImageProgram(4, 4, 6, 6, "i8")
    written.conv(8, (3, 3), padding=SAME, fused=True)
    written.unary("convert", "i32")
    written.unary("reduce_sum", shape=(8,), attr="{axes = array<i64: 2, 3>, keepdims = false}")
    written.matmul(5)
    return written


def padded() -> ImageProgram:
    """Constant padding, concatenated ways, weights of several bits."""
    written = ImageProgram(13, 2, 5, 7, "i8")
    written.pad((2, 1), (1, 3), 3)
    mark = written.mark()
    written.conv(2, (3, 3), padding=SAME, fused=True)
    written.binary("concatenate", mark, "{axis = 1 : i64}")
    written.unary("convert", "i32")
    written.conv(3, (3, 3), dilation=(2, 1), strides=(1, 2), digits=2)
    return written


def expanded() -> ImageProgram:
    """Pixels that go to many adders, and a convolution of each channel behind them."""
    written = ImageProgram(22, 8, 6, 6, "i8")
    written.conv(48, (1, 1), fused=True)
    written.conv(48, (3, 3), padding=SAME, groups=48, fused=True)
    return written


NETWORKS = [residual, depthwise, pooled, averaged, padded, expanded]


def circuit(module: ModuleOp, clock: float) -> Any:
    return compile_to_target(
        module, "verilog", {"time_budget": 0.001, "vectors": 2, "clock": clock}
    )


@pytest.mark.parametrize(
    ("network", "clock"),
    [
        (residual, 100.0),
        *(pytest.param(network, 200.0, marks=pytest.mark.slow) for network in NETWORKS),
    ],
)
def test_the_clock_is_reached(
    network: Callable[[], ImageProgram], clock: float, program: Program
) -> None:
    written = network()
    assert_reached(circuit(program(written.text(), written.values), clock), clock)


def assert_reached(artifact: Any, clock: float) -> None:
    found = json.loads(artifact.text("report.json"))["estimate"]
    assert found["clock_mhz"] >= clock and found["clock_reached"]
    assert found["clock_goal_mhz"] == clock


@pytest.mark.parametrize("network", NETWORKS)
def test_registers_change_no_result_and_no_pace(
    network: Callable[[], ImageProgram], program: Program, iverilog: str
) -> None:
    """The test bench compares latency and interval too, while both sides wait at random."""
    written = network()
    module = program(written.text(), written.values)
    x = written.inputs(5)
    (expected,) = run_module(module, [x])
    fast = circuit(module, 300.0)
    assert_reached(fast, 300.0)
    _, (actual,) = run_verilog(fast, [x], "iverilog")
    assert np.array_equal(actual, expected)
    slow = circuit(module, 20.0)
    intervals = [json.loads(a.text("report.json"))["initiation_interval"] for a in (fast, slow)]
    assert intervals[0] == intervals[1]


@settings(max_examples=12)
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_windows_of_any_geometry(
    iverilog: str,
    program: Program,
    sizes: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
) -> None:
    written = ImageProgram(sum(sizes), 2, *sizes, "i8")
    spans = [
        n + padding[a] + padding[a + 2] - (k - 1) * dilation[a]
        for a, (n, k) in enumerate(zip(sizes, kernel, strict=True))
    ]
    if min(spans) < 1:
        return
    written.conv(2, kernel, strides, padding, dilation, fused=True)
    module = program(written.text(), written.values)
    x = written.inputs(6)
    (expected,) = run_module(module, [x])
    _, (actual,) = run_verilog(circuit(module, 300.0), [x], "iverilog")
    assert np.array_equal(actual, expected)


def test_a_clock_out_of_reach_is_told(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    written = averaged()
    module = program(written.text(), written.values)
    warn_missed_clock(circuit(module, 200.0), "tool")
    assert not capsys.readouterr().err
    found = circuit(module, 700.0)
    size = json.loads(found.text("report.json"))["estimate"]
    assert size["clock_mhz"] < 700 and not size["clock_reached"]
    warn_missed_clock(found, "tool")
    assert capsys.readouterr().err == (
        f"tool: warning: the circuit reaches {size['clock_mhz']} MHz of 700 MHz by the estimate; "
        f"held back by {size['slowest']}\n"
    )
    assert f"held back by {size['slowest']}; 700 MHz were asked for" in found.text("report.md")
