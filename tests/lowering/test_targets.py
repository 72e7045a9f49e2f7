"""Targets: the table, their options, the stages with dumps, and messages for what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store, parameter_value, parameters
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError, PassError, UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering import targets
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.emission import Names, UnsupportedOps
from triton_dsl.lowering.options import TargetOptions, option, option_infos
from triton_dsl.lowering.targets import (
    Stage,
    Target,
    compile_to_target,
    get_all_targets,
    register_target,
)

TEXT = """
func.func @forward(%x : tensor<?x4xf32>) -> tensor<?x4xf32> {
  %w = tensor.parameter "w" : tensor<4xf32>
  %0 = tensor.relu %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %1 = tensor.relu %0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %2 = tensor.mul %1, %w : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %2 : tensor<?x4xf32>
}
"""


@dataclass(frozen=True)
class CountOptions(TargetOptions):
    kind: Literal["ops", "lines"] = option("ops", "what to count")
    least: int = option(0, "the least count")
    scale: float = option(1.0, "a factor")
    loud: bool = option(False, "shout")
    label: str | None = option(None, "a label")
    sizes: tuple[int, ...] = option((1, 2), "sizes")


class CountTarget(Target):
    """Counts ops by name."""

    name: ClassVar[str] = "count"
    description: ClassVar[str] = "counts ops"
    Options: ClassVar[type[TargetOptions]] = CountOptions
    seen: ClassVar[list[CountOptions]] = []
    table: ClassVar[Sequence[Stage]] = (Stage("simplify", "canonicalize"), Stage("clean", "dce"))

    def stages(self, options: CountOptions) -> Sequence[Stage]:
        return self.table

    def emit(self, module: ModuleOp, options: CountOptions) -> Artifact:
        self.seen.append(options)
        ops = [op.name for op in module.walk()]
        return Artifact("count", {"count.txt": str(ops.count("tensor.relu")).encode()})


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(targets._registered)  # pyright: ignore[reportPrivateUsage]
    register_target("count", CountTarget)
    CountTarget.seen.clear()
    yield
    targets._registered.clear()  # pyright: ignore[reportPrivateUsage]
    targets._registered.update(before)  # pyright: ignore[reportPrivateUsage]


def module() -> ModuleOp:
    found = parse_module(TEXT, "model.mlir")
    attach_store(found, ParameterStore.of({"w": np.arange(4, dtype=np.float32)}))
    return found


def compile_with(spec: str, **options: object) -> CountOptions:
    compile_to_target(module(), spec, options)
    return CountTarget.seen[-1]


def test_the_built_in_targets_are_there() -> None:
    assert {"pytorch", "onnx", "native", "count"} <= get_all_targets().keys()


def test_stages_run_on_a_copy() -> None:
    source = module()
    before = str(source)
    artifact = compile_to_target(source, "count")
    assert artifact.text() == "1"
    assert str(source) == before


def test_the_manifest_says_where_it_comes_from() -> None:
    manifest = compile_to_target(module(), "count{least=3}").manifest
    assert manifest["target"] == "count{least=3}"
    assert manifest["pipeline"] == [
        {"stage": "simplify", "passes": "canonicalize"},
        {"stage": "clean", "passes": "dce"},
    ]
    assert str(manifest["tool"]).startswith("triton-dsl ")
    assert len(str(manifest["source_sha256"])) == 64
    assert compile_to_target(module(), "count{least=3}").manifest == manifest


def test_the_source_hash_covers_weights_in_memory() -> None:
    other = module()
    attach_store(other, ParameterStore.of({"w": np.ones(4, np.float32)}))
    hashes = {compile_to_target(m, "count").manifest["source_sha256"] for m in (module(), other)}
    assert len(hashes) == 2


def test_options_are_read_from_text_and_keywords() -> None:
    text = "count{kind=lines least=3 scale=2 loud label=net sizes=4,5}"
    assert compile_with(text) == CountOptions("lines", 3, 2.0, True, "net", (4, 5))
    assert compile_with("count{loud=false}", kind="lines") == CountOptions("lines")
    assert compile_with("count{least=1}", least=2).least == 2
    assert compile_with("count{label=1e5}").label == "1e5"
    given = CountOptions(least=9)
    compile_to_target(module(), CountTarget(), given)
    assert CountTarget.seen[-1] is given


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cuont", "unknown target 'cuont'; did you mean 'count'"),
        ("zzz", "unknown target 'zzz'; there are "),
        ("count{kynd=ops}", "target 'count' has no option 'kynd'; did you mean 'kind'"),
        ("count{zzzzz=1}", "it has kind, least, scale, loud, label, sizes"),
        ("count{kind=words}", "option 'kind' expects one of ops, lines, got 'words'"),
        ("count{least=1.5}", "option 'least' expects an integer, got '1.5'"),
        ("count{least=true}", "option 'least' expects an integer, got 'true'"),
        ("count{least=1,2}", "option 'least' expects an integer, got '1,2'"),
        ("count{loud=3}", "option 'loud' expects true or false, got '3'"),
        ("count{sizes=a}", "option 'sizes' expects list of an integer, got 'a'"),
        ("count{least", "is no target"),
        ("{}", "is no target"),
        ("", "is no target"),
        ("count,count", "is no target"),
        ("count{least=1}{loud}", "is no target"),
        ("count{least=1 least=2}", "option 'least' is given twice"),
        ("count[least]", "is no target"),
        ('count{least="1"}', "option 'least' expects an integer, got '1'"),
    ],
)
def test_wrong_targets_and_options(spec: str, message: str) -> None:
    with pytest.raises(OptionError) as raised:
        compile_to_target(module(), spec)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_options_describe_themselves() -> None:
    infos = option_infos(CountOptions)
    assert [(i.name, i.type, i.default, i.help) for i in infos[:3]] == [
        ("kind", "one of ops, lines", "ops", "what to count"),
        ("least", "an integer", 0, "the least count"),
        ("scale", "a number", 1.0, "a factor"),
    ]


def test_a_target_may_look_at_the_output_path(tmp_path: Path) -> None:
    class PathTarget(CountTarget):
        """Takes its label from the file's suffix."""

        def options_for(self, options: CountOptions, output: Path) -> CountOptions:
            return replace(options, label=options.label or output.suffix)

    compile_to_target(module(), PathTarget(), {"least": 3}, output=tmp_path / "a.txt")
    assert CountTarget.seen[-1] == CountOptions(least=3, label=".txt")
    compile_to_target(module(), PathTarget(), {"least": 3})
    compile_to_target(module(), CountTarget(), {"least": 3}, output=tmp_path / "a.txt")
    assert CountTarget.seen[-2:] == [CountOptions(least=3)] * 2


def test_stages_are_dumped_with_their_weights(tmp_path: Path) -> None:
    compile_to_target(module(), "count", dump_stages=tmp_path / "ir")
    folder = tmp_path / "ir"
    names = ["00-input.mlir", "01-simplify.mlir", "02-clean.mlir"]
    assert sorted(p.name for p in folder.iterdir()) == [*names, "parameters.safetensors"]
    counts = [(folder / name).read_text().count("tensor.relu") for name in names]
    assert counts == [2, 1, 1]
    again = parse_module((folder / names[1]).read_text(), str(folder / names[1]))
    (parameter,) = parameters(again)
    np.testing.assert_array_equal(parameter_value(parameter), np.arange(4, dtype=np.float32))
    assert "model.mlir" in (folder / names[0]).read_text()


def test_stages_are_dumped_up_to_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = (Stage("simplify", "canonicalize"), Stage("broken", "canonicalise"))
    monkeypatch.setattr(CountTarget, "table", table)
    with pytest.raises(
        OptionError, match="unknown pass 'canonicalise'; did you mean 'canonicalize'"
    ):
        compile_to_target(module(), "count", dump_stages=tmp_path)
    from xdsl.transforms.dead_code_elimination import DeadCodeElimination
    from xdsl.utils.exceptions import PassFailedException

    def fail(*_: object) -> None:
        raise PassFailedException("no way")

    monkeypatch.setattr(DeadCodeElimination, "apply", fail)
    monkeypatch.setattr(CountTarget, "table", (table[0], Stage("broken", "dce")))
    with pytest.raises(PassError, match="stage 'broken': pass 'dce': no way"):
        compile_to_target(module(), "count", dump_stages=tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*.mlir")) == ["00-input.mlir", "01-simplify.mlir"]


def test_a_package_adds_a_target_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("external", f"{__name__}:CountTarget", targets.ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: CountTarget)  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(targets, "plug_ins", lambda group: [point])  # pyright: ignore[reportUnknownLambdaType]
    assert compile_to_target(module(), "external").text() == "1"


def test_unsupported_ops_are_listed_at_once_with_a_command() -> None:
    text = """
func.func @forward(%x : tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  %1 = tensor.cast %0 : tensor<?xf32> to tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
"""
    with pytest.raises(UnsupportedError) as raised:
        compile_to_target(parse_module(text, "net.mlir"), "pytorch{class-name=Net}")
    assert [problem[:2] for problem in raised.value.problems] == [
        ("tensor.cast", "net.mlir:3:3"),
        ("tensor.cast", "net.mlir:4:3"),
    ]
    assert "triton-translate -t 'pytorch{class-name=Net}' net.mlir" in str(raised.value)


PLAIN = [
    "tensor.add %x, %x : (tensor<2x4xT>, tensor<2x4xT>) -> tensor<2x4xT>",
    "tensor.relu %x : (tensor<2x4xT>) -> tensor<2x4xT>",
    "tensor.reshape_to %x {shape = array<i64: 4, 2>} : (tensor<2x4xT>) -> tensor<4x2xT>",
]


def plain_module(line: str, element: str) -> ModuleOp:
    """One op on a tensor of an element type."""
    result = line.rpartition(" ")[2]
    text = f"""
func.func @forward(%x : tensor<2x4xT>) -> {result} {{
  %y = {line}
  func.return %y : {result}
}}
"""
    return parse_module(text.replace("xT>", f"x{element}>"), "net.mlir")


INTEGERS = [
    "i1",
    "i2",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "ui4",
    "ui8",
    "ui16",
    "ui32",
    "ui64",
]


@pytest.mark.parametrize("element", [*INTEGERS, "tf32", "f8E4M3FN"])
@pytest.mark.parametrize(
    "name", ["native", "nir", "onnx", "pytorch", "spinnaker", "tflite", "verilog"]
)
def test_any_element_type_is_written_or_refused(name: str, element: str) -> None:
    for line in PLAIN if element != "i1" else PLAIN[-1:]:
        try:
            compile_to_target(plain_module(line, element), name)
        except UnsupportedError as error:
            assert "net.mlir:" in str(error)


@pytest.mark.parametrize("name", ["native", "onnx", "pytorch", "tflite", "verilog"])
def test_element_types_that_there_are_not_are_refused_by_op(name: str) -> None:
    with pytest.raises(UnsupportedError, match="tensors of i4 are not supported") as raised:
        compile_to_target(plain_module(PLAIN[0], "i4"), name)
    assert [problem[:2] for problem in raised.value.problems] == [
        ("func.func", "net.mlir:2:1"),
        ("tensor.add", "net.mlir:3:3"),
    ]


def test_element_types_without_a_form_are_refused_by_op() -> None:
    with pytest.raises(UnsupportedError, match="LiteRT has no tensors of uint16") as raised:
        compile_to_target(plain_module(PLAIN[1], "ui16"), "tflite")
    assert [problem[0] for problem in raised.value.problems] == ["func.func", "tensor.relu"]


def test_nothing_is_raised_without_problems() -> None:
    UnsupportedOps("x").raise_if_any()


def test_names_are_identifiers_and_unique() -> None:
    names = Names({"self"})
    wishes = ["self", "fc1.weight", "fc1_weight", "0", "class", "", "β", "x", "x", "x_1"]
    given = [names.new(wish) for wish in wishes]
    assert given == [
        "self_1",
        "fc1_weight",
        "fc1_weight_1",
        "_0",
        "class_",
        "_",
        "__1",
        "x",
        "x_1",
        "x_1_1",
    ]
