"""Operators that keep values from run to run give what LiteRT gives, in several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.to_tflite.graph import Element, Tensor

Array = np.ndarray[Any, Any]
FOLDER = Path(__file__).parent / "converted" / "state"
I8, I16, I32 = Element.INT8, Element.INT16, Element.INT32
RUNS = 3


def variable(name: str, shape: tuple[int, ...], element: Element = Element.FLOAT32,
             how: Any = None) -> Tensor:  # fmt: skip
    return Tensor(name, element, shape, None, how, variable=True)


def agree(
    bench: Any, data: bytes, *, steps: int = 0, close: float = 2e-5, reference: bool = True
) -> Any:
    """Run the program on its own states, and LiteRT; from zeros, or the zero point, on."""
    module = from_tflite(data)
    function = module.body.block.first_op
    x, *states = function.body.block.args  # type: ignore[union-attr]
    shapes = [value.type.get_shape() for value in (x, *states)]
    attributes = function.arg_attrs.data  # type: ignore[union-attr]
    zeros = [int(a.data["tensor.zero_point"].value.data) if "tensor.zero_point" in a.data else 0
             for a in attributes]  # fmt: skip
    dtypes = {"f32": np.float32, "i8": np.int8, "i16": np.int16}
    random = np.random.default_rng(0)

    def drawn() -> Array:
        if str(x.type.element_type) == "f32":
            return random.normal(size=shapes[0]).astype(np.float32)
        return random.integers(-128, 128, shapes[0]).astype(np.int8)

    runs = [[drawn()] for _ in range(RUNS)]
    state = [np.full(shape, zero, dtypes[str(value.type.element_type)])
             for shape, zero, value in zip(shapes[1:], zeros[1:], states, strict=True)]  # fmt: skip
    wanted = bench.litert_runs(data, runs, reference=reference)
    for inputs, (want,) in zip(runs, wanted, strict=True):
        got, *state = run_module(module, [*inputs, *state])
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if want.dtype == np.float32:
            np.testing.assert_allclose(got, want, atol=close)
        else:
            assert np.abs(got.astype(int) - want).max() <= steps
    assert len(np.unique(wanted[-1][0])) > 4
    return module


def lstm(
    bench: Any, *, cell: int = 6, out: int = 6, peepholes: bool = False, norms: bool = False,
    coupled: bool = False, integers: bool = False, first: bool = False, **options: Any,
) -> bytes:  # fmt: skip
    random = np.random.default_rng(cell + out)
    width, steps, batch = 5, 4, 2

    def stored(*shape: int, hole: bool = False) -> Tensor:
        values = random.normal(size=shape).astype(np.float32) * 0.8
        if not integers or (len(shape) == 1 and not hole):
            return bench.constant(values, name="w")
        scale = np.abs(values).max() / 127
        return bench.constant(np.rint(values / scale).astype(np.int8), I8, bench.grid(scale), "w")

    gates = range(4)
    weights = [stored(cell, width) for _ in gates]
    recurrent = [stored(cell, out) for _ in gates]
    holes: list[Tensor | None] = [stored(cell, hole=True) if peepholes else None for _ in "ifo"]
    biases: list[Tensor | None] = [stored(cell) for _ in gates]
    scales: list[Tensor | None] = [stored(cell) if norms else None for _ in gates]
    entry: list[Tensor | None] = [None, *weights[1:]] if coupled else list(weights)
    again: list[Tensor | None] = [None, *recurrent[1:]] if coupled else list(recurrent)
    if coupled:
        holes[0] = biases[0] = scales[0] = None
    projection = [stored(out, cell), stored(out)] if out != cell else [None, None]
    order = (steps, batch) if first else (batch, steps)
    x = bench.tensor("x", (*order, width))
    state = [variable("h", (batch, out)), variable("c", (batch, cell))]
    inputs = [x, *entry, *again, *holes, *biases, *projection, *state, *(scales if norms else [])]
    options = {"fusedActivationFunction": 4, "timeMajor": first, **options}
    y = bench.tensor("y", (*order, out))
    return bench.one_operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], options)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"first": True, "cellClip": 0.3},
        {"coupled": True, "peepholes": True},
        {"peepholes": True, "out": 4, "projClip": 1.5},
        {"norms": True},
        {"norms": True, "coupled": True, "out": 3, "fusedActivationFunction": 1, "cellClip": 2.0},
    ],
)
@pytest.mark.parametrize("integers", [False, True])
def test_lstm(bench: Any, form: dict[str, Any], integers: bool) -> None:
    # A difference in the last bit may round an activation to the next of its 127 steps.
    agree(bench, lstm(bench, integers=integers, **form), close=2e-2 if integers else 2e-5)


def test_its_state_goes_in_and_out_of_every_engine(bench: Any) -> None:
    module = from_tflite(lstm(bench, out=4))
    random = np.random.default_rng(0)
    inputs = [random.normal(size=shape).astype(np.float32) for shape in ((2, 4, 5), (2, 4), (2, 6))]
    wanted = run_module(module, inputs)
    assert len(wanted) == 3
    for target in ("onnx", "tflite", "pytorch", "native"):
        _, found, _ = run_target(module, target, inputs)
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(got), want, atol=1e-5)
    names = [str(a.data["tensor.name"].data) for a in module.body.block.first_op.res_attrs.data]  # type: ignore[union-attr]
    assert names == ["y", "h.next", "c.next"]


def with_intermediates(data: bytes, hidden: tuple[float, int]) -> bytes:
    """A file whose operator says on which grid what it gives is."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as installed

    schema: Any = installed
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    graph = model.subgraphs[0]
    first = len(graph.tensors)
    for index in range(5):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = f"between{index}", [0], 0
        if index == 4:
            tensor.type = int(I8)
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = [hidden[0]]
            tensor.quantization.zeroPoint = [hidden[1]]
        graph.tensors.append(tensor)
    graph.operators[0].intermediates = list(range(first, first + 5))
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize(
    ("coupled", "peepholes", "options"),
    [
        (False, False, {}),
        (True, True, {"cellClip": 1.5}),
        (False, True, {"timeMajor": True}),
    ],
)
@pytest.mark.parametrize("reference", [True, False])
def test_lstm_of_integers(
    bench: Any, coupled: bool, peepholes: bool, options: dict[str, Any], reference: bool
) -> None:
    """Bit for bit, with saturated sums among them."""
    cell, width, steps, batch = 6, 5, 4, 2
    random = np.random.default_rng(0)
    x_step, h_step = 0.03, 0.006

    def weight(name: str, rows: int, columns: int, scale: float) -> Tensor:
        levels = random.integers(-127, 128, (rows, columns)).astype(np.int8)
        return bench.constant(levels, I8, bench.grid(scale), name)

    def vector(name: str, kind: Element, limit: int, scale: float) -> Tensor:
        levels = random.integers(-limit, limit, cell).astype(kind.dtype)
        return bench.constant(levels, kind, bench.grid(scale), name)

    scales = random.uniform(0.008, 0.03, 4)
    entry: list[Tensor | None] = [weight("w", cell, width, s) for s in scales]
    again: list[Tensor | None] = [weight("r", cell, cell, s) for s in scales]
    biases: list[Tensor | None] = [vector("b", I32, 2000, s * x_step) for s in scales]
    holes: list[Tensor | None] = [
        vector("p", I16, 30000, 2e-5) if peepholes else None for _ in range(3)
    ]
    if coupled:
        entry[0] = again[0] = biases[0] = holes[0] = None
    order = (steps, batch) if options.get("timeMajor") else (batch, steps)
    x = bench.tensor("x", (*order, width), I8, bench.grid(x_step, 3))
    y = bench.tensor("y", (*order, cell), I8, bench.grid(h_step, 5))
    state = [variable("h", (batch, cell), I8, bench.grid(h_step, 5)),
             variable("c", (batch, cell), I16, bench.grid(2.0**-12))]  # fmt: skip
    inputs = [x, *entry, *again, *holes, *biases, None, None, *state]
    data = bench.one_operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], {"fusedActivationFunction": 4, **options}
    )
    agree(bench, with_intermediates(data, (h_step, 5)), reference=reference)


@pytest.mark.parametrize("kind", ["int8", "dynamic"])
def test_lstm_of_the_converter(bench: Any, kind: str) -> None:
    data = (FOLDER / f"lstm.{kind}.tflite").read_bytes()
    agree(bench, data, close=2e-2)


def test_what_has_no_meaning_is_refused(bench: Any) -> None:
    with pytest.raises(UnsupportedError, match="its recurrent weights are diagonals"):
        from_tflite(lstm(bench, diagonalRecurrentTensors=True))


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_svdf(bench: Any, rank: int, integers: bool) -> None:
    random = np.random.default_rng(rank)
    filters, width, memory, batch = 8, 6, 5, 2
    feature = random.normal(size=(filters, width)).astype(np.float32)
    stored = bench.constant(feature, name="feature")
    if integers:
        scale = np.abs(feature).max() / 127
        levels = np.rint(feature / scale).astype(np.int8)
        stored = bench.constant(levels, I8, bench.grid(scale), "feature")
    times = bench.constant(random.normal(size=(filters, memory)).astype(np.float32), name="time")
    if integers:
        scale = 0.02
        levels = random.integers(-127, 128, (filters, memory)).astype(np.int8)
        times = bench.constant(levels, I8, bench.grid(scale), "time")
    bias = bench.constant(random.normal(size=filters // rank).astype(np.float32), name="bias")
    state = variable("s", (batch, filters * memory))
    x, y = bench.tensor("x", (batch, width)), bench.tensor("y", (batch, filters // rank))
    data = bench.one_operator(
        "SVDF", [x, stored, times, bias, state], [y], {"rank": rank, "fusedActivationFunction": 1}
    )
    agree(bench, data, close=5e-2 if integers else 1e-5)


@pytest.mark.parametrize("rank", [1, 2])
def test_svdf_of_integers(bench: Any, rank: int) -> None:
    random = np.random.default_rng(rank)
    filters, width, memory, batch = 8, 6, 5, 2
    feature = bench.constant(random.integers(-127, 128, (filters, width)).astype(np.int8), I8,
                             bench.grid(0.011), "feature")  # fmt: skip
    times = bench.constant(random.integers(-32767, 32768, (filters, memory)).astype(np.int16), I16,
                           bench.grid(3e-5), "time")  # fmt: skip
    bias = bench.constant(random.integers(-3000, 3000, filters // rank).astype(np.int32), I32,
                          bench.grid(0.0007 * 3e-5), "bias")  # fmt: skip
    state = variable("s", (batch, filters * memory), I16, bench.grid(0.0007))
    x = bench.tensor("x", (batch, width), I8, bench.grid(0.05, 7))
    y = bench.tensor("y", (batch, filters // rank), I8, bench.grid(0.13, -11))
    data = bench.one_operator(
        "SVDF", [x, feature, times, bias, state], [y], {"rank": rank, "fusedActivationFunction": 1}
    )
    agree(bench, data)
