"""NIR graphs as networks: time, shapes, repairs, and files from strangers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import nir as nir_package
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, StringAttr

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.spike import NetworkOp, PopulationOp, ProbeOp, ProjectionOp
from triton_dsl.ir.errors import OptionError, SourceError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_nir import NirWarning, import_nir
from triton_dsl.lowering.from_nir.graph import close_ends, flat_graph
from triton_dsl.lowering.from_nir.shapes import infer_shapes
from triton_dsl.lowering.hdf5_file import read_hdf5
from triton_dsl.lowering.models import import_model

nir: Any = nir_package
RNG = np.random.default_rng(0)
Array = NDArray[Any]


def ops(module: ModuleOp, kind: type[Any]) -> dict[str, Any]:
    found: list[Any] = [op for op in module.walk() if isinstance(op, kind)]
    return {op.sym_name.data: op for op in found}


def graph(nodes: dict[str, Any], *edges: tuple[str, str]) -> Any:
    return nir.NIRGraph(nodes, list(edges), type_check=False)


def around(node: Any, taken: tuple[int, ...], given: tuple[int, ...]) -> Any:
    nodes = {"i": nir.Input(np.array(taken)), "n": node, "o": nir.Output(np.array(given))}
    return graph(nodes, ("i", "n"), ("n", "o"))


def lif(size: int = 2, **values: Any) -> Any:
    given = {"tau": 0.02, "r": 1.0, "v_leak": 0.0, "v_threshold": 1.0, **values}
    return nir.LIF(**{name: np.full(size, value) for name, value in given.items()})


@pytest.mark.parametrize(("reference", "integration"), [("norse", "euler"), ("exact", "exact")])
def test_the_published_lif(reference: str, integration: str, shared_data: Any) -> None:
    """One LIF of the NIR paper against Norse (Euler), and its exact solution to the first spike.

    The exact solution resets within a step, so that voltages differ after spikes; spikes agree.
    """
    model = shared_data.path("models", "nir", "lif_norse.nir")
    trace = shared_data.path("reference", f"lif_{reference}.csv")
    columns: Array = np.loadtxt(trace, delimiter=",")
    x = columns[:, 0].astype(np.float32).reshape(-1, 1, 1)
    module = import_nir(model, integration=integration)
    spikes = run_module(module, [x])[0].reshape(-1)
    np.testing.assert_array_equal(spikes, columns[:, 2] != 0)
    voltage = run_module(watching_voltage(module), [x])[0].reshape(-1)
    steps = slice(None) if reference == "norse" else slice(0, int(spikes.argmax()))
    assert columns[steps, 1].max() > 0.05
    np.testing.assert_allclose(voltage[steps], columns[steps, 1], rtol=0, atol=1e-7)


def watching_voltage(module: ModuleOp) -> ModuleOp:
    """A module whose outputs record potentials."""
    from triton_dsl.dialects.parameters import attach_store, store_of
    from triton_dsl.dialects.registry import parse_module

    store = store_of(module)
    for probe in ops(module, ProbeOp).values():
        probe.variable = StringAttr("v")
    text = str(module).replace("!spike.train<?x?x1>", "tensor<?x?x1xf32>")
    module = parse_module(
        text.replace(" attributes {tensor.parameters = #tensor.store<unsaved>}", "")
    )
    attach_store(module, store)
    return module


def test_sums_scales_delays_and_pools_compute_what_nir_says() -> None:
    """(Scale + delayed input) through a convolution and a pool, against torch."""
    scale, weight = RNG.standard_normal((2, 4, 6)), RNG.standard_normal((3, 2, 2, 3))
    bias = RNG.standard_normal(3)
    module = import_nir(_chain(scale, weight, bias))
    x = RNG.standard_normal((5, 2, 2, 4, 6)).astype(np.float32)
    late = np.concatenate([np.zeros_like(x[:2]), x[:-2]])
    summed = torch.from_numpy(x * scale.astype(np.float32) + late).flatten(0, 1)
    kernel, offset = (torch.from_numpy(v.astype(np.float32)) for v in (weight, bias))
    y = torch.nn.functional.conv2d(summed, kernel, offset, (2, 1), (1, 0), (1, 2))
    y = torch.nn.functional.avg_pool2d(y, (1, 2), (1, 1), (0, 1))
    found = run_module(module, [x])[0]
    np.testing.assert_allclose(found, y.flatten(1).reshape(5, 2, -1).numpy(), atol=1e-5)


def _chain(scale: Array, weight: Array, bias: Array) -> Any:
    nodes = {
        "in": nir.Input(np.array((2, 4, 6))),
        "scale": nir.Scale(scale),
        "delay": nir.Delay(np.full((2, 4, 6), 2e-4)),
        "conv": nir.Conv2d(None, weight, (2, 1), (1, 0), (1, 2), 1, bias),
        "pool": nir.AvgPool2d(np.array((1, 2)), np.array((1, 1)), np.array((0, 1))),
        "flat": nir.Flatten(None, 0, -1),
        "out": nir.Output(np.array([3 * 3 * 3])),
    }
    edges = [
        "in scale",
        "in delay",
        "scale conv",
        "delay conv",
        "conv pool",
        "pool flat",
        "flat out",
    ]
    return graph(nodes, *[(a, b) for a, b in (edge.split() for edge in edges)])


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (2, 3), (4, 5)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_shapes_of_convolutions(size: tuple[int, int], stride: int) -> None:
    weight = np.ones((4, 1, *size))
    taken = torch.zeros(1, 2, 7, 9)
    for padding in ("same", "valid", (1, 2)):
        node = nir.Conv2d(None, weight, (stride, 1), padding, (1, 1), 2, np.zeros(4))
        flat, _ = flat_graph(
            graph({"i": nir.Input(np.array((2, 7, 9))), "n": node}, ("i", "n")).to_dict(), ""
        )
        close_ends(flat, "")
        given = infer_shapes(flat, "", [])["n"][1]
        if padding == "same":
            assert given == (4, -(-7 // stride), 9)
        else:
            kernel = torch.ones(4, 1, *size)
            y = torch.nn.functional.conv2d(taken, kernel, None, (stride, 1), padding, 1, 2)
            assert given == tuple(y.shape[1:])


def test_feedback_takes_a_step() -> None:
    nodes = {"i": nir.Input(np.array([2])), "n": lif(), "w": nir.Linear(np.eye(2)),
             "o": nir.Output(np.array([2]))}  # fmt: skip
    module = import_nir(graph(nodes, ("i", "n"), ("n", "w"), ("w", "n"), ("n", "o")))
    delays = {name: op.delay.value.data for name, op in ops(module, ProjectionOp).items()}
    assert delays == {"i->n": 0, "w": 1}
    nodes["d"] = nir.Delay(np.full(2, 3e-4))
    edges = ("i", "n"), ("n", "w"), ("w", "d"), ("d", "n"), ("n", "o")
    module = import_nir(graph(nodes, *edges))
    delays = {name: op.delay.value.data for name, op in ops(module, ProjectionOp).items()}
    assert delays == {"i->n": 0, "w": 0, "d": 3}


def test_subgraphs_become_dotted_names() -> None:
    inner = {"input": nir.Input(np.array([2])), "n": lif(), "output": nir.Output(np.array([2]))}
    nested = graph(inner, ("input", "n"), ("n", "output"))
    nodes = {"a": nir.Input(np.array([2])), "sub": nested, "b": nir.Output(np.array([2]))}
    module = import_nir(graph(nodes, ("a", "sub"), ("sub", "b")))
    assert list(ops(module, PopulationOp)) == ["sub.n"]
    assert ops(module, ProbeOp)["b"].target.string_value() == "sub.n"


def inner(*edges: tuple[str, str], inputs: str = "i", outputs: str = "o", **nodes: Any) -> Any:
    """A subgraph of two neurons an Input."""
    ends: dict[str, Any] = {name: nir.Input(np.array([2])) for name in inputs.split()}
    ends |= {name: nir.Output(np.array([2])) for name in outputs.split()}
    return graph({**ends, **nodes}, *edges)


def test_subgraphs_in_subgraphs_with_several_ends() -> None:
    """What flows where, against the same graph without subgraphs."""
    scale = {name: nir.Scale(np.full(2, number)) for name, number in (("s", 3.0), ("t", -5.0))}
    deep = inner(("i", "s"), ("s", "o"), s=scale["s"])
    middle = inner(
        *(("a", "deep"), ("deep", "p"), ("b", "t"), ("t", "q"), ("b", "deep")),
        inputs="a b", outputs="p q", deep=deep, t=scale["t"],
    )  # fmt: skip
    nodes = {"a": nir.Input(np.array([2])), "y": nir.Input(np.array([2])), "sub": middle}
    nodes |= {"p": nir.Output(np.array([2])), "z": nir.Output(np.array([2]))}
    # 'a' and 'p' are ends of the subgraph by name, the others are named with a dot.
    edges = ("a", "sub"), ("y", "sub.b"), ("sub", "p"), ("sub.q", "z")
    module = import_nir(graph(nodes, *edges))
    a, y = RNG.standard_normal((2, 4, 3, 2)).astype(np.float32)
    p, z = run_module(module, [a, y])
    np.testing.assert_allclose(p, 3 * (a + y), rtol=1e-6)
    np.testing.assert_allclose(z, -5 * y, rtol=1e-6)


@pytest.mark.parametrize(
    ("subgraph", "edges", "message"),
    [
        (inner(("i", "gone"), ("gone", "o")), (("a", "sub"), ("sub", "b")),
         r"'sub\.i' hands on to nothing: edge 'sub\.i' -> 'sub\.gone' is left out, for there is no "
         r"node 'sub\.gone'; add that node or edge"),
        (inner(("i", "n"), ("gone", "o"), n=lif()), (("a", "sub"), ("sub", "b")),
         r"'sub\.o' receives nothing: edge 'sub\.gone' -> 'sub\.o' is left out"),
        (inner(("i", "o"), inputs="i j"), (("a", "sub"), ("sub", "b")),
         r"subgraph 'sub' needs one Input in it, it has 2; name one of them, as in 'sub\.i'"),
        (inner(("i", "n"), outputs="", n=lif()), (("a", "sub"), ("sub", "b")),
         r"subgraph 'sub' needs one Output in it, it has 0; give it an Output"),
        (inner(("i", "o"), outputs="o p"), (("a", "sub"), ("sub.p", "b")),
         r"'sub\.p' receives nothing: no edge in its subgraph is at it"),
    ],
)  # fmt: skip
def test_subgraphs_that_lead_nowhere(subgraph: Any, edges: Any, message: str) -> None:
    nodes = {"a": nir.Input(np.array([2])), "sub": subgraph, "b": nir.Output(np.array([2]))}
    with pytest.raises(SourceError, match=message):
        import_nir(graph(nodes, *edges))


def test_axes_of_one_at_inputs_and_outputs() -> None:
    with pytest.warns(NirWarning, match=r"Output 'o' says \[1, 1, 1\] where its edges have \[1\]"):
        module = import_nir(around(lif(1), (1,), (1, 1, 1)))
    assert run_module(module, [np.ones((3, 2, 1), np.float32)])[0].shape == (3, 2, 1)
    with pytest.warns(NirWarning, match=r"Input 'i' says \[1, 2\] where its edges have \[2\]"):
        import_nir(around(lif(), (1, 2), (2,)))
    with pytest.raises(SourceError, match=r"brings \[2\], and 'o' takes \[1, 3\]"):
        import_nir(around(lif(), (2,), (1, 3)))


def test_a_batch_of_one_before_a_window() -> None:
    weight = RNG.standard_normal((3, 2, 3, 3)).astype(np.float32)
    conv = nir.Conv2d(None, weight, 1, 0, 1, 1, np.zeros(3, np.float32))
    with pytest.warns(NirWarning, match=r"Input 'i' says \[1, 2, 6, 6\] where its edges have"):
        module = import_nir(around(conv, (1, 2, 6, 6), (3, 4, 4)))
    x = RNG.standard_normal((4, 1, 2, 6, 6)).astype(np.float32)
    wanted = torch.nn.functional.conv2d(torch.from_numpy(x[:, 0]), torch.from_numpy(weight))
    np.testing.assert_allclose(run_module(module, [x])[0][:, 0], wanted.numpy(), atol=1e-5)
    with pytest.raises(SourceError, match="3 axes, channels first"):
        import_nir(around(conv, (2, 2, 6, 6), (3, 4, 4)))


def step_of(module: ModuleOp) -> float:
    (network,) = ops(module, NetworkOp).values()
    return network.dt.value.data


def test_integrators_of_another_r_are_warned_of() -> None:
    """SpikingJelly means 1/dt by it, Norse and Sinabs leave it out."""
    with pytest.warns(NirWarning, match=r"'n' \(IF\) adds r = 1000 times its input.*dt=0.001"):
        assert step_of(import_nir(around(integrate_fire(1e3), (2,), (2,)))) == 1.0
    assert step_of(import_nir(around(integrate_fire(1e3), (2,), (2,)), dt=1.0)) == 1.0


def integrate_fire(r: float = 1.0) -> Any:
    return nir.IF(r=np.full(2, r), v_threshold=np.full(2, 1.0), v_reset=np.zeros(2))


def test_integrators_alone_step_by_one() -> None:
    """As in Norse, which gives these spikes for every dt; SpikingJelly for r = 1/dt."""
    x = np.full((9, 1, 2), 0.6, np.float32)
    x[:, :, 1] = 0.3
    wanted = np.zeros((9, 1, 2), bool)
    wanted[1::2, 0, 0] = wanted[3::4, 0, 1] = True
    for r, dt in ((1.0, 1.0), (1e4, 1e-4)):
        module = import_nir(around(integrate_fire(r), (2,), (2,)))
        assert step_of(module) == dt
        np.testing.assert_array_equal(run_module(module, [x])[0], wanted)
    assert step_of(import_nir(around(nir.I(np.ones(2)), (2,), (2,)))) == 1.0
    assert step_of(import_nir(around(integrate_fire(), (2,), (2,)), dt=1e-3)) == 1e-3
    assert step_of(import_nir(around(lif(), (2,), (2,)))) == 1e-4


def test_integrators_beside_time_constants_are_warned_of() -> None:
    nodes = {"i": nir.Input(np.array([2])), "a": lif(), "b": integrate_fire()}
    nodes["o"] = nir.Output(np.array([2]))
    mixed = graph(nodes, ("i", "a"), ("a", "b"), ("b", "o"))
    with pytest.warns(NirWarning, match=r"'b' \(IF\) adds r·dt = 0.0001 .* because 'a' has a time"):
        assert step_of(import_nir(mixed)) == 1e-4
    assert step_of(import_nir(mixed, dt=1e-3)) == 1e-3  # without a warning
    nodes["b"] = integrate_fire(1e4)
    assert step_of(import_nir(graph(nodes, ("i", "a"), ("a", "b"), ("b", "o")))) == 1e-4


def test_repairs_are_named() -> None:
    nodes = {"i": nir.Input(np.array([2])), "n": lif()}
    broken = graph(nodes, ("i", "n"), ("i", "n"), ("gone", "n"))
    with pytest.warns(NirWarning) as caught:
        module = import_nir(broken)
    text = "\n".join(str(warning.message) for warning in caught)
    assert "'i' -> 'n' stands there twice" in text
    assert "'gone' -> 'n' is left out, for there is no node 'gone'" in text
    assert "node 'n' gives; it gets the Output 'output_n'" in text
    assert list(ops(module, ProbeOp)) == ["output_n"]


def test_steps_that_time_does_not_fit() -> None:
    with pytest.warns(NirWarning, match="delay of 0.00034 s of node 'n' is rounded"):
        module = import_nir(around(nir.Delay(np.array([3.4e-4])), (1,), (1,)))
    assert ops(module, ProjectionOp)["n"].delay.value.data == 3
    with pytest.warns(NirWarning, match="tau of node 'n' is shorter than a step"):
        module = import_nir(around(lif(tau=1e-5), (2,), (2,)))
    (network,) = ops(module, NetworkOp).values()
    assert network.integration.data == "exact"
    with pytest.raises(SourceError, match=r"at least 0\.0001 s, got 1e-05; give a smaller dt"):
        import_nir(around(lif(tau=1e-5), (2,), (2,)), integration="euler")


def test_a_time_constant_of_one_step_in_float32_keeps_nothing() -> None:
    """As snnTorch writes neurons with a beta of 0: 1e-4 s in float32 is below 1e-4."""
    node = nir.LIF(**{
        name: np.full(2, value, np.float32)
        for name, value in {"tau": 1e-4, "r": 1, "v_leak": 0, "v_threshold": 0.5}.items()
    })  # fmt: skip
    x = np.array([[0.4, 0.6], [0.4, 0.6], [0.6, 0.2]], np.float32)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NirWarning)
        module = import_nir(around(node, (2,), (2,)))
    (network,) = ops(module, NetworkOp).values()
    assert network.integration.data == "euler"
    np.testing.assert_array_equal(run_module(module, [x])[0], x > 0.5)
    _, (found,), _ = run_target(module, "pytorch", [x])
    np.testing.assert_array_equal(found, x > 0.5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: around(lif(3), (2,), (3,)), r"'i' -> 'n' brings \[2\], and 'n' takes \[3\]"),
        (lambda: around(lif(tau=0.0), (2,), (2,)), "expected tau above 0"),
        (lambda: around(lif(r=np.nan), (2,), (2,)), "r of node 'n' holds NaN"),
        (lambda: around(nir.Linear(np.ones((999, 99, 99))), (999, 99), (999, 99)), "too many"),
        (lambda: around(nir.Affine(np.ones((2, 3)), np.ones(3)), (3,), (2,)), "a bias of 2"),
        (lambda: around(nir.Delay(np.array([-1.0])), (1,), (1,)), "delays in seconds"),
        (lambda: graph({"i": nir.Input(np.array([1])), "o": nir.Output(np.array([1]))},
                       ("o", "i")), "the wrong way at the Input 'i'"),
    ],
)  # fmt: skip
def test_what_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        import_nir(wrong())


def test_options_are_checked() -> None:
    wrong = {"dt": 0.0}, {"dt": float("nan")}, {"integration": "heun"}, {"reset": "half"}
    for options in wrong:
        with pytest.raises(OptionError):
            import_nir(around(lif(), (2,), (2,)), **options)  # pyright: ignore[reportArgumentType]


def stored(path: Path, change: Any) -> Path:
    nir.write(path, around(lif(), (2,), (2,)))
    with h5py.File(path, "r+") as file:
        change(file["node"])
    return path


def other_type(node: Any) -> None:
    del node["nodes/n/type"]
    node["nodes/n/type"] = "Transformer"


def external_link(node: Any) -> None:
    node["nodes/n/more"] = h5py.ExternalLink("/etc/passwd", "/")


def external_values(node: Any) -> None:
    del node["nodes/n/tau"]
    node["nodes/n"].create_dataset("tau", (2,), "f8", external=[("/etc/passwd", 0, 16)])


def strange_values(node: Any) -> None:
    del node["nodes/n/tau"]
    node["nodes/n"].create_dataset("tau", data=np.zeros(2, [("a", "f8")]))


def huge_values(node: Any) -> None:
    del node["nodes/n/tau"]
    node["nodes/n"].create_dataset("tau", (1 << 40,), "f8", chunks=(1 << 20,))


def missing_field(node: Any) -> None:
    del node["nodes/n/tau"]


def endless(node: Any) -> None:
    node["nodes/n/again"] = node


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_type, "'n' has the unknown type 'Transformer'; NIR has Input"),
        (external_link, "links are not followed"),
        (external_values, "its values are in another file"),
        (strange_values, "expected numbers or strings"),
        (huge_values, "more values than the limit"),
        (missing_field, r"node 'n' \(LIF\) has no tau"),
        (endless, "entries, or deeper"),
    ],
)
def test_files_from_strangers(tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        import_nir(stored(tmp_path / "graph.nir", change))


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "graph.nir"
    with pytest.raises(SourceError, match="no such file"):
        import_nir(path)
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(SourceError, match="not a readable HDF5 file"):
        import_nir(path)
    with h5py.File(path, "w"):
        pass
    with pytest.raises(SourceError, match="no entry 'node'"):
        import_nir(path)


def test_damaged_files_end_in_a_message(tmp_path: Path) -> None:
    path = stored(tmp_path / "graph.nir", lambda node: None)
    whole = path.read_bytes()
    for _ in range(60):
        data = bytearray(whole)
        for place in RNG.integers(0, len(data), 4):
            data[place] = RNG.integers(0, 256)
        path.write_bytes(data)
        try:
            read_hdf5(path, "node", "NIR graph", byte_limit=1 << 24)
        except SourceError as error:
            assert str(path) in str(error)


def test_command_lines_read_nir(tmp_path: Path) -> None:
    path = stored(tmp_path / "graph.nir", lambda node: None)
    assert import_model(path).sym_name == StringAttr("graph")
    with pytest.raises(OptionError, match="has its own weights"):
        import_model(path, weights=tmp_path / "weights.npz")


def test_the_step_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from triton_dsl.tools.cli import main

    path = stored(tmp_path / "graph.nir", lambda node: None)
    assert step_of(import_model(path, dt=5e-3)) == 5e-3
    written = tmp_path / "slow.nir"
    compiled = ["compile", str(path), "-t", "nir", "-o", str(written), "--dt", "5e-3"]
    assert main(compiled) in (0, None)
    assert step_of(import_nir(written)) == 5e-3
    assert main([*compiled[:3], "nir{dt=1e-3}", *compiled[4:]]) in (0, None)
    assert step_of(import_nir(written)) == 1e-3
    assert main(["run", str(path), "--dt", "-1"]) == 2
    assert "dt expects seconds above 0" in capsys.readouterr().err
    with pytest.raises(OptionError, match=r"takes no 'dt'; a \.nir graph does"):
        import_model(tmp_path / "graph.onnx", dt=1e-3)


def test_triton_opt_keeps_the_weights(tmp_path: Path) -> None:
    from triton_dsl.tools.opt import main

    path = stored(tmp_path / "graph.nir", lambda node: None)
    assert main([str(path), "-o", str(tmp_path / "graph.mlir")]) in (0, None)
    again = import_model(tmp_path / "graph.mlir")
    assert str(again).count("spike.population") == 1
    np.testing.assert_array_equal(run_module(again, [np.ones((3, 1, 2), np.float32)])[0], 0)
