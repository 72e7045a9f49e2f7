"""Files of `torch.export.save` come in as the module does; what could run code is refused."""

from __future__ import annotations

import io
import json
import logging
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import SourceError, UnsupportedError
from triton_dsl.lowering.from_torch.pt2_file import from_pt2
from triton_dsl.tools.translate import main

Records = dict[str, bytes]


class Net(nn.Module):
    """Two free sizes, a buffer, a constant, infinity, and sizes that it computes with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.register_buffer("shift", torch.randn(4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.layer(x) + self.shift + torch.tensor([1.0, 2.0, 3.0, 4.0])
        with torch.no_grad():
            y = y.masked_fill(y < -1, -float("inf"))
        return {"y": torch.cat([y, y], 1).softmax(-1), "places": torch.arange(2 * x.shape[1])}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Net, Path]:
    net, path = Net().eval(), tmp_path_factory.mktemp("pt2") / "net.pt2"
    sizes = ({0: Dim("batch"), 1: Dim("length")},)
    torch.export.save(torch.export.export(net, (torch.randn(2, 5, 3),), dynamic_shapes=sizes), path)
    return net, path


def test_programs_come_in(saved: tuple[Net, Path]) -> None:
    net, path = saved
    module = from_pt2(path)
    assert 'tensor.dimensions = ["N", "x_1", "3"]' in str(module)
    for shape in ((2, 5, 3), (4, 1, 3)):
        x = torch.randn(shape)
        with torch.no_grad():
            wanted = net(x)
        for found, want in zip(run_module(module, [x.numpy()]), wanted.values(), strict=True):
            np.testing.assert_allclose(found, want.numpy(), 1e-5, 1e-6)


def test_the_command_line(saved: tuple[Net, Path], tmp_path: Path) -> None:
    assert main([str(saved[1]), "--import", "-o", str(tmp_path / "net.mlir")]) == 0
    assert "tensor.linear" in (tmp_path / "net.mlir").read_text(encoding="utf-8")


def changed(path: Path, folder: Path, change: Callable[[Records], object]) -> Path:
    """An archive with other records."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        root = names[0].split("/")[0]
        records = {name.partition("/")[2]: archive.read(name) for name in names}
    change(records)
    made = folder / "changed.pt2"
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in records.items():
            archive.writestr(f"{root}/{name}", data)
    return made


def graph(records: Records, change: Callable[[Any], object]) -> None:
    model = json.loads(records["models/model.json"])
    change(model)
    records["models/model.json"] = json.dumps(model).encode()


def test_what_is_not_read_of_a_graph_stays_behind(saved: tuple[Net, Path], tmp_path: Path) -> None:
    def change(model: Any) -> None:
        model["guards_code"] = ["L['x'].size()[0] >= 2"]
        model["graph_module"]["graph"]["nodes"][0]["metadata"]["custom"] = '{"a": "b(c)"}'

    same = from_pt2(changed(saved[1], tmp_path, lambda records: graph(records, change)))
    assert str(same).replace("changed", "net") == str(from_pt2(saved[1]))


def payload(records: Records, **values: Any) -> None:
    name = "data/weights/model_weights_config.json"
    table = json.loads(records[name])
    next(iter(table["config"].values())).update(values)
    records[name] = json.dumps(table).encode()


class Malicious:
    """Unpickled, it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.mark,)


def objects(records: Records, mark: Path) -> None:
    buffer = io.BytesIO()
    torch.save(Malicious(mark), buffer)
    records["data/sample_inputs/model.pt"] = buffer.getvalue()


def opaque(records: Records, mark: Path) -> None:
    records["data/constants/opaque_obj_0"] = pickle.dumps(Malicious(mark))


def operator(records: Records, mark: Path) -> None:
    def change(model: Any) -> None:
        node = model["graph_module"]["graph"]["nodes"][0]
        node["target"] = "torch.os.mkdir"

    graph(records, change)


def size(records: Records, mark: Path) -> None:
    text = records["models/model.json"].decode()
    start = text.index('"expr_str": "') + len('"expr_str": "')
    end = text.index('"', start)
    code = f"__import__('pathlib').Path('{mark}').touch()"
    records["models/model.json"] = (text[:start] + code + text[end:]).encode()


def bounds(records: Records, mark: Path) -> None:
    def change(model: Any) -> None:
        limits = model["range_constraints"]
        limits[f"open('{mark}', 'w')"] = next(iter(limits.values()))

    graph(records, change)


def argument(records: Records, mark: Path) -> None:
    """The name of an argument, which PyTorch writes into the head of a function that it makes."""
    text = records["models/model.json"].decode()
    records["models/model.json"] = text.replace('"x"', f"\"x=open('{mark}', 'w')\"").encode()


def keyword(records: Records, mark: Path) -> None:
    def change(model: Any) -> None:
        call = model["graph_module"]["module_call_graph"][0]["signature"]
        call["out_spec"] = call["out_spec"].replace("places", f"open('{mark}')")

    graph(records, change)


def library(records: Records, mark: Path) -> None:
    records["data/aotinductor/model/model.so"] = b"\x7fELF"


def enumeration(records: Records, mark: Path) -> None:
    def change(model: Any) -> None:
        call = model["graph_module"]["module_call_graph"][0]["signature"]
        call["in_spec"] = '[1, {"__enum__": true, "fqn": "antigravity:x"}]'

    graph(records, change)


CHANGES: dict[str, tuple[Callable[[Records, Path], object], str]] = {
    "pickled inputs": (objects, "example inputs are pickled objects"),
    "a pickled weight": (lambda r, _: payload(r, use_pickle=True), "is a pickled object"),
    "a pickled constant": (opaque, "which could run code"),
    "an operator of another module": (operator, "not one of PyTorch's own"),
    "code for a size": (size, "is no size"),
    "code for a bound": (bounds, "is no size"),
    "code for an argument": (argument, "is no name"),
    "code for the key of a result": (keyword, "is no name"),
    "a library": (library, "which could run code"),
    "types to import": (enumeration, "types that it would import"),
    "a weight cut off": (lambda r, _: r.update({"data/weights/weight_0": b"1234"}), "fewer elem"),
    "no weights": (lambda r, _: r.pop("data/weights/weight_0"), "no program of torch.export"),
    "a graph cut off": (lambda r, _: r.update({"models/model.json": b"{"}), "no program"),
    "no graph": (lambda r, _: r.pop("models/model.json"), "no archive"),
    "a list for a graph": (lambda r, _: r.update({"models/model.json": b"[]"}), "no program"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_could_run_code_is_refused(saved: tuple[Net, Path], tmp_path: Path, name: str) -> None:
    change, reason = CHANGES[name]
    mark = tmp_path / "ran"
    with pytest.raises(SourceError, match=reason):
        from_pt2(changed(saved[1], tmp_path, lambda records: change(records, mark)))
    assert not mark.exists()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"not an archive"])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.pt2"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"no archive of torch\.export\.save"):
        from_pt2(path)


def test_a_short_tensor_is_one_message(
    saved: tuple[Net, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.getLogger("torch.export"), "handle", said.append)

    def cut(records: Records) -> None:
        records["data/weights/weight_0"] = records["data/weights/weight_0"][:-4]

    path = changed(saved[1], tmp_path, cut)
    assert main([str(path), "--import", "-o", str(tmp_path / "net.mlir")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1 and not said


def test_tensors_that_a_program_makes_are_bounded(tmp_path: Path) -> None:
    class Large(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.arange(3).repeat(10)[:3]

    path = tmp_path / "large.pt2"
    torch.export.save(torch.export.export(Large(), (torch.randn(2, 3),)), path)
    from_pt2(path)

    def enlarge(model: Any) -> None:
        for node in model["graph_module"]["graph"]["nodes"]:
            if node["target"].startswith("torch.ops.aten.repeat"):
                node["inputs"][1]["arg"] = {"as_ints": [1 << 40]}

    with pytest.raises(UnsupportedError, match="elements before the program runs"):
        from_pt2(changed(path, tmp_path, lambda records: graph(records, enlarge)))
