"""What a record says is what PyTorch computes, and a pass that is wrong is found."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from triton_dsl import explore
from triton_dsl.dialects import tensor
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError, PassError
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.passes.analysis.replacement import replace
from triton_dsl.passes.fuse_linear import FuseLinearPass
from triton_dsl.tools.cli import main
from triton_dsl.tools.explorer.record import json_bytes
from triton_dsl.tools.explorer.values import gap, gaps_of, statistics

ROOT = Path(__file__).resolve().parents[3]


EMPTY = """
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> { func.return %x : tensor<2xf32> }
"""


class Net(nn.Module):
    """A network with a place for each of its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.head = nn.Linear(4 * 16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classes of images of 8 by 8."""
        y = torch.relu(self.conv(x))
        y = nn.functional.max_pool2d(y, 2)
        return self.head(y.flatten(1))


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def image() -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=(2, 1, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def data(net: Net, image: NDArray[np.float32]) -> dict[str, Any]:
    module = from_torch(net, torch.from_numpy(image))
    return explore(module, [image], passes="fuse-linear,ternarize", targets=["onnx"]).data


def ops(stage: dict[str, Any], name: str) -> list[int]:
    return [n for n, op in enumerate(stage["ops"]) if op["name"] == name]


def test_statistics_are_those_of_pytorch(
    data: dict[str, Any], net: Net, image: NDArray[np.float32]
) -> None:
    (relu,) = ops(data["stages"][0], "tensor.relu")
    value = data["stages"][0]["values"][data["stages"][0]["ops"][relu]["results"][0]]
    with torch.no_grad():
        expected = torch.relu(net.conv(torch.from_numpy(image))).double()
    known = value["statistics"]
    assert value["shape"][1:] == [4, 8, 8] and value["element"] == "f32"
    assert known["count"] == expected.numel() and known["bits"] == 32
    assert known["max"] == pytest.approx(expected.max().item(), rel=1e-4)
    assert known["min"] == 0
    assert known["mean"] == pytest.approx(expected.mean().item(), rel=1e-4)
    assert known["zeros"] == pytest.approx((expected == 0).double().mean().item(), rel=1e-4)
    bars = torch.histc(expected, len(known["histogram"]))
    # A number on the edge of two bars may fall into either.
    assert np.abs(bars.numpy() - known["histogram"]).max() <= 2


def test_places_and_layers(data: dict[str, Any]) -> None:
    (conv,) = ops(data["stages"][0], "tensor.conv")
    op = data["stages"][0]["ops"][conv]
    file = data["files"][op["place"]["file"]]
    assert op["group"] == ["conv"] or op["place"]["name"] == "conv"
    assert "self.conv(x)" in file["lines"][op["place"]["line"] - 1]
    first, last = op["lines"]
    assert first == last and "tensor.conv" in data["stages"][0]["text"][first]


def test_every_op_stands_on_its_lines(data: dict[str, Any]) -> None:
    for stage in data["stages"]:
        for op in stage["ops"]:
            assert op["name"] in stage["text"][op["lines"][0]]


def test_stages_come_from_each_other(data: dict[str, Any]) -> None:
    names = [(stage["track"], stage["name"], stage["before"]) for stage in data["stages"]]
    assert names[0] == ("", "import", -1)
    assert ("", "ternarize", data["program"] - 1) in names
    assert names[-1][0] == "onnx" and data["stages"][data["program"]]["track"] == ""
    for stage in data["stages"][1:]:
        before = data["stages"][stage["before"]]
        assert all(0 <= o < len(before["ops"]) for op in stage["ops"] for o in op["origins"])


def test_what_is_meant_to_differ_agrees(data: dict[str, Any]) -> None:
    stage = data["stages"][data["program"]]
    assert stage["approximate"]
    check = stage["checks"][0]
    assert check["kind"] == "pass" and check["agrees"] and check["first"] is not None


def test_an_engine_is_compared_op_by_op(data: dict[str, Any]) -> None:
    (check,) = [c for c in data["stages"][data["program"]]["checks"] if c["kind"] == "engine"]
    assert check["agrees"] and "onnxruntime" in check["name"]
    assert len(check["values"]) >= 4
    assert not any(row["wrong"] for row in check["values"].values())


def test_a_wrong_pass_is_found(monkeypatch: pytest.MonkeyPatch, image: NDArray[np.float32]) -> None:
    def wrong(self: FuseLinearPass, ctx: Context, op: ModuleOp) -> None:
        for relu in [inner for inner in op.walk() if isinstance(inner, tensor.ReluOp)]:
            replace(relu, tensor.AbsOp(relu.operands[0]))

    module = from_torch(Net().eval(), torch.from_numpy(image))
    monkeypatch.setattr(FuseLinearPass, "apply", wrong)
    found = explore(module, [image], passes="canonicalize,fuse-linear,cse")
    (sentence,) = found.differences()
    assert "'fuse-linear'" in sentence and "'tensor.abs'" in sentence


def test_a_source_is_compared_node_by_node(shared_data: Any) -> None:
    path = shared_data.path("models", "onnx", "mnist-conv-opset8.onnx")
    image = np.random.default_rng(0).random((1, 1, 28, 28)).astype(np.float32)
    found = explore(path, [image])
    (check,) = found.data["stages"][0]["checks"]
    assert check["agrees"] and len(check["values"]) == 11
    assert len(found.data["files"][0]["lines"]) == 12


def test_the_same_model_gives_the_same_bytes(image: NDArray[np.float32]) -> None:
    torch.manual_seed(3)
    module = from_torch(Net().eval(), torch.from_numpy(image))
    first, second = (explore(module, [image]).content("json") for _ in range(2))
    assert first == second
    json.loads(first, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_not_a_number_stays_json() -> None:
    known = statistics(np.array([np.nan, np.inf, -1.0, 3.0]))
    assert known["not_finite"] == 2 and known["min"] == -1 and known["max"] == 3
    json_bytes(known)
    apart = gap(np.array([1.0]), np.array([np.nan]))
    assert apart is not None and apart["wrong"] and apart["max_abs"] == "inf"


@pytest.mark.parametrize(
    ("low", "high", "bits"), [(0, 1, 1), (0, 255, 8), (-1, 0, 1), (-128, 127, 8), (0, 256, 9)]
)
def test_bits_hold_all_values(low: int, high: int, bits: int) -> None:
    assert statistics(np.array([low, high], np.int32))["bits"] == bits


def test_floats_of_16_bits_round_coarsely() -> None:
    bf16 = np.dtype(ml_dtypes.bfloat16)
    one, next_one = np.array([1.0], bf16), np.array([1.0078125], bf16)
    near, far = gap(one, next_one), gap(one, np.array([1.25], bf16))
    assert near is not None and not near["wrong"] and near["max_abs"] == 2**-7
    assert far is not None and far["wrong"]


def test_a_few_spikes_may_stray() -> None:
    spikes = np.zeros(200, np.bool_)
    few, many = spikes.copy(), spikes.copy()
    few[:2], many[:3] = True, True
    rows = [gap(spikes, other, 0.01) for other in (few, many)]
    assert [row is not None and row["wrong"] for row in rows] == [False, True]
    exact = gap(spikes, few)
    assert exact is not None and exact["wrong"]


def test_results_of_other_sizes_are_wrong() -> None:
    arrays = {3: np.zeros(2, np.float32)}
    other = {7: np.zeros((2, 1), np.float32)}
    assert gaps_of({7: 3}, arrays, other, []) == {}
    assert gaps_of({7: 3}, arrays, other, [7])["7"]["wrong"]


def test_an_engine_that_refuses_compares_nothing() -> None:
    kind = "tensor<2xui64>"
    module = parse_module(f"""
func.func @forward(%x: {kind}) -> {kind} {{
  %y = tensor.abs %x : ({kind}) -> {kind}
  func.return %y : {kind}
}}
""")
    data = explore(module, [np.ones(2, np.uint64)], targets=["pytorch"]).data
    (check,) = [c for c in data["stages"][0]["checks"] if c["kind"] == "engine"]
    assert check["values"] == {} and "cannot express" in check["note"]


def test_what_refuses_the_program_is_told_beside_all_others() -> None:
    found = explore(parse_module(EMPTY), [np.ones(2, np.float32)], targets=["verilog", "onnx"])
    stage = found.data["stages"][found.data["program"]]
    refusals = [check for check in stage["checks"] if check["kind"] == "refusal"]
    assert [check["name"] for check in refusals] == ["verilog"]
    assert "hardware takes integers" in refusals[0]["note"]
    assert {stage["track"] for stage in found.data["stages"]} == {"", "onnx"}
    (told,) = found.differences()
    assert told.startswith("stage 'import': verilog refuses it: stage 'hardware'")
    with pytest.raises(OptionError, match="did you mean 'verilog'"):
        explore(parse_module(EMPTY), targets=["verilg"])


def test_a_pass_that_refuses_ends_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PassError("no layers here")

    monkeypatch.setattr(FuseLinearPass, "apply", refuse)
    found = explore(parse_module(EMPTY), passes="dce,fuse-linear", targets=["onnx"])
    assert "no layers here" in found.differences()[0]
    assert {stage["track"] for stage in found.data["stages"]} == {""}


def test_without_inputs_nothing_is_run() -> None:
    module = parse_module(EMPTY)
    data = explore(module).data
    assert data["note"] == "no inputs were given" and data["stages"][0]["checks"] == []


def test_files_of_others_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("KEY = 1\n", encoding="utf-8")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    relu = f'%y = tensor.relu %x : (tensor<2xf32>) -> tensor<2xf32> loc("{secret}":1:1)'
    text = EMPTY.replace("func.return %x", f"{relu} func.return %y")
    path = tmp_path / "here" / "m.mlir"
    path.write_text(text, encoding="utf-8")
    data = explore(path, [np.zeros(2, np.float32)]).data
    assert {file["name"]: file["lines"] for file in data["files"]}[str(secret)] == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, page = ROOT / "examples" / "models" / "digits.tri", tmp_path / "page.html"
    arguments = ["explore", str(model), "--layer", "FloatMLP", "-o", str(page)]
    assert main([*arguments, "--random-weights", "-p", "fuse-linear"]) == 0
    assert page.stat().st_size < 2_000_000
    assert main(arguments) == 0  # without weights it is shown, and not run
    assert "nothing was run" in capsys.readouterr().err
    assert main([*arguments, "--format", "docx"]) != 0
    assert "no form 'docx'" in capsys.readouterr().err
    assert main(["explore", str(model), "-o", str(model)]) != 0
    assert "is read by this command" in capsys.readouterr().err


def test_a_stage_that_there_is_not() -> None:
    module = parse_module(EMPTY)
    with pytest.raises(OptionError, match="no stage 'imprt'; did you mean 'import'"):
        explore(module).content("dot", "imprt")
