"""The public names: all there, known to type checkers, loaded on first use only."""

from __future__ import annotations

import ast
import compileall
import json
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import triton_dsl
from triton_dsl.ir.errors import BackendError
from triton_dsl.ir.lazy import lazy_names
from triton_dsl.spiking import LifNeuron

ROOT = Path(__file__).resolve().parent.parent
FACES = {
    "triton_dsl": "__init__.py",
    "triton_dsl.backends": "backends.py",
    "triton_dsl.dialects": "dialects/__init__.py",
    "triton_dsl.passes": "passes/__init__.py",
    "triton_dsl.runtime": "runtime/__init__.py",
    "triton_dsl.spiking": "spiking.py",
    "triton_dsl.targets": "targets.py",
    "triton_dsl.training": "training.py",
}


def typed_names(face: str) -> dict[str, str]:
    """The names that a type checker sees in a face, and the module that it takes each from."""
    path = ROOT / FACES[face]
    package = face if path.name == "__init__.py" else "triton_dsl"
    (block,) = [
        node
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    names: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        base = package if node.level == 1 else package.rpartition(".")[0]
        for alias in node.names:
            assert alias.asname == alias.name, f"{face}: {alias.name} is not exported"
            names[alias.name] = f"{base}.{node.module}" if node.module else base
    return names


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("face", FACES)
def test_each_name_is_what_type_checkers_take_it_for(face: str) -> None:
    module = import_module(face)
    for name, home in typed_names(face).items():
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            assert value.__name__ == f"{home}.{name}"
        else:
            assert value is getattr(import_module(home), name), name
        assert name in dir(module)


def test_a_face_loads_no_more_and_no_less_than_type_checkers_see() -> None:
    program = (
        "import importlib, json\n"
        f"modules = [importlib.import_module(name) for name in {list(FACES)!r}]\n"
        "print(json.dumps([sorted({*dir(m)} - {*vars(m)}) for m in modules[::-1]]))\n"
    )
    # Faces that were loaded are names of the package then.
    found = dict(zip(reversed(FACES), json.loads(run(program)), strict=True))
    found["triton_dsl"] += [face.partition(".")[2] for face in FACES if "." in face]
    assert found.keys() == FACES.keys()
    for face, names in found.items():
        assert sorted(names) == sorted(typed_names(face)), face


@pytest.mark.parametrize("face", [face for face in FACES if face != "triton_dsl"])
def test_a_star_import_brings_every_name(face: str) -> None:
    assert sorted(import_module(face).__all__) == sorted(typed_names(face))


@pytest.mark.parametrize("face", FACES)
def test_no_name_hides_a_module(face: str) -> None:
    """`import triton_dsl.passes.x` makes `x` a name of the package."""
    path = ROOT / FACES[face]
    if path.name == "__init__.py":
        below = {p.stem if p.suffix == ".py" else p.name for p in path.parent.iterdir()}
        names = typed_names(face)
        assert {n for n in below & names.keys() if names[n] != face} == set()


def test_every_pass_of_the_folder_is_a_name() -> None:
    from triton_dsl.passes import PASSES

    homes = [home.partition(":") for home in PASSES.values() if home.startswith("passes.")]
    names = typed_names("triton_dsl.passes")
    assert all(names[name] == f"triton_dsl.{module}" for module, _, name in homes)


def test_modules_are_attributes_of_the_package() -> None:
    program = (
        "import triton_dsl\n"
        "print(triton_dsl.runtime.TernaryLinear.__name__, triton_dsl.dialects.tensor.__name__,\n"
        "      triton_dsl.spiking.LifNeuron.__name__, triton_dsl.passes.TernarizePass.name)"
    )
    names = ["TernaryLinear", "triton_dsl.dialects.tensor", "LifNeuron", "ternarize"]
    assert run(program).split() == names
    assert LifNeuron.__module__ == "triton_dsl.runtime.spiking.neurons"


def test_a_star_import_brings_the_compiler_and_not_torch() -> None:
    program = (
        "from triton_dsl import *\n"
        "import sys\n"
        "print(TritonParser.__name__, compile_model.__name__, 'torch' in sys.modules)"
    )
    assert run(program).split() == ["TritonParser", "compile_model", "False"]
    assert set(triton_dsl.__all__) <= typed_names("triton_dsl").keys()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'triton_dsl' has no attribute 'nonsense'"):
        _ = triton_dsl.nonsense  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec("from triton_dsl.spiking import nonsense")


@pytest.mark.parametrize(
    ("face", "module", "name"),
    [
        ("triton_dsl.runtime", "triton_dsl.runtime.layers", "TernaryLinear"),
        ("triton_dsl.lowering.from_torch", "triton_dsl.lowering.from_torch.importer", "from_torch"),
    ],
)
def test_missing_pytorch_is_told(
    monkeypatch: pytest.MonkeyPatch, face: str, module: str, name: str
) -> None:
    import_module(face)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    load, _, _ = lazy_names(face)
    with pytest.raises(BackendError, match=f"{name} needs PyTorch: pip install"):
        load(name)


def test_a_face_needs_no_source(tmp_path: Path) -> None:
    """As where an application is packed with the code of its modules alone."""
    (tmp_path / "market").mkdir()
    (tmp_path / "market" / "goods.py").write_text("apple = 'an apple'\n", encoding="utf-8")
    face = "from .goods import apple as apple\n    from . import goods as goods\n"
    (tmp_path / "market" / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from triton_dsl.ir.lazy import lazy_names\n"
        f"if TYPE_CHECKING:\n    {face}"
        "else:\n    __getattr__, __dir__, __all__ = lazy_names(__name__)\n",
        encoding="utf-8",
    )
    assert compileall.compile_dir(tmp_path, quiet=1, legacy=True)
    for source in (tmp_path / "market").glob("*.py"):
        source.unlink()
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import market\n"
        "print(*market.__all__, 'market.goods' in sys.modules, market.apple, market.__file__)"
    )
    assert run(program).split() == [
        *("apple", "goods", "False", "an", "apple", str(tmp_path / "market" / "__init__.pyc"))
    ]


def test_the_version_is_that_of_the_distribution() -> None:
    assert triton_dsl.__version__ == version("triton-dsl")


@pytest.mark.parametrize("face", FACES)
def test_a_face_loads_nothing_else(face: str) -> None:
    program = f"import sys, {face}; print(*[m for m in sys.modules if m.startswith('triton_dsl.')])"
    mechanism = {f"triton_dsl.ir{part}" for part in ("", ".collection", ".errors", ".lazy")}
    assert set(run(program).split()) | {"triton_dsl"} == mechanism | {"triton_dsl", face}


@pytest.mark.slow
def test_type_checkers_know_the_names(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import triton_dsl\n"
        "from triton_dsl.passes import TernarizePass\n"
        "from triton_dsl.spiking import LifNeuron, nonsense\n"
        "reveal_type([TernarizePass, LifNeuron, triton_dsl.runtime.TernaryTensor])\n"
    )
    checker = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps({"extraPaths": [str(ROOT / ".types")]}))
    done = subprocess.run(
        [*checker, "-p", str(config)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    said = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one["message"] for one in said if one["severity"] == "error"]
    assert errors == ['"nonsense" is unknown import symbol']
    (revealed,) = [one["message"] for one in said if one["severity"] == "information"]
    assert "type[TernarizePass] | type[LifNeuron] | type[TernaryTensor]" in revealed
