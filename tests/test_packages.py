"""What is installed is what stands in the tree: packages, data files and entry points."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.ir.extras import install

ROOT = Path(__file__).resolve().parent.parent
FACES = ("__init__.py", "backends.py", "spiking.py", "targets.py", "training.py")
FOLDERS = ("ir", "dialects", "passes", "lowering", "runtime", "tools")
CONFIG: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS: dict[str, Any] = CONFIG["tool"]["setuptools"]


def package_of(folder: Path) -> str:
    """The name of the package that `folder` is."""
    return ".".join(["triton_dsl", *folder.relative_to(ROOT).parts])


def source_files() -> list[Path]:
    """Every file of the six folders, without what Python writes."""
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.name != ".DS_Store"
    ]


def test_every_package_is_listed() -> None:
    found = {package_of(path.parent) for path in source_files() if path.name == "__init__.py"}
    assert set(SETUPTOOLS["packages"]) == found | {"triton_dsl"}


def test_every_module_is_in_a_package() -> None:
    folders = {path.parent for path in source_files() if path.suffix == ".py"}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_root_holds_faces_alone() -> None:
    assert sorted(path.name for path in ROOT.glob("*.py")) == sorted(FACES)


def test_every_data_file_is_installed() -> None:
    patterns: dict[str, list[str]] = SETUPTOOLS["package-data"]
    missing = [
        path.relative_to(ROOT).as_posix()
        for path in source_files()
        if path.suffix != ".py"
        and not any(
            fnmatch(path.relative_to(folder).as_posix(), pattern)
            for folder in path.parents
            if folder.is_relative_to(ROOT)
            for pattern in patterns.get(package_of(folder), [])
        )
    ]
    assert missing == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        path.relative_to(ROOT).as_posix()
        for path in [*(ROOT / name for name in FACES), *source_files()]
        if path.suffix == ".py" and not starts_with_text(path.read_text("utf-8"))
    ]
    assert silent == []
    assert starts_with_text('# Who wrote it.\n\n"""What it is for."""\n')
    assert not starts_with_text("# Who wrote it.\n") and not starts_with_text('"""\n"""\n')
    assert not starts_with_text('import re\n"""What it is for."""\n')


def starts_with_text(source: str) -> bool:
    """Whether a module has a docstring: parsing them all would take seconds."""
    return re.match(r'(?:#.*\n|\n)*r?"""\s*[^\s"]', source) is not None


def test_extras_gather_in_all() -> None:
    extras: dict[str, list[str]] = CONFIG["project"]["optional-dependencies"]
    everything = extras["all"][0].removeprefix("triton-dsl[").removesuffix("]").split(",")
    # PyTorch/XLA needs a machine with a TPU and a PyTorch of its own version; the tools that make
    # bitstreams take 400 MB, which systems have as packages too; Flower takes only versions of
    # other packages that it names.
    assert set(everything) == set(extras) - {"all", "bitstream", "dev", "federated", "tpu"}


def test_nothing_is_installed_by_a_name_that_anybody_may_take() -> None:
    """The package is on no index: every text says `install(extra)`, with an extra that exists."""
    extras = set(CONFIG["project"]["optional-dependencies"])
    command, _, where = install("torch").partition(" in ")
    assert command == "pip install '.[torch]'" and where
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout
    by_name = re.compile(
        r"""install[^\n`]*[ '"]triton[-_]dsl\b|[`'"]triton[-_]dsl\[|\["triton-dsl"""
    )
    by_extra = re.compile(r"pip install[^\n`'\"]*['\"]\.\[([\w,]+)\]")
    wrong: list[str] = []
    for name in tracked.splitlines():
        if not name.endswith((".py", ".md", ".toml", ".tri", ".yaml", ".txt", "Makefile")):
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        if name not in ("pyproject.toml", "tests/test_packages.py"):
            wrong += [f"{name}: {found[0]}" for found in by_name.finditer(text)]
        for found in by_extra.finditer(text):
            # Messages of the code come from the one place; its docstrings and pages name extras.
            known = set(found[1].split(",")) <= extras
            wrong += [] if known else [f"{name}: {found[0]}"]
    assert wrong == []


def test_messages_say_how_to_install_in_one_place() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in source_files()
        if path.suffix == ".py" and path.name != "extras.py"
        if "install " in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.search(r"install ['\"]?\.", node.value.partition("\n")[0])
    ]
    assert wrong == []


def test_constraints_pin_every_direct_dependency() -> None:
    project = CONFIG["project"]
    wanted = [*project["dependencies"]]
    for name, requirements in project["optional-dependencies"].items():
        wanted += [] if name in ("all", "federated") else requirements
    names = {normal(requirement) for requirement in wanted}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pinned if "==" not in line] == []
    assert names - {normal(line) for line in pinned} == set()


def normal(requirement: str) -> str:
    """The name in a requirement, as package indexes spell it."""
    name = requirement
    for mark in "=<>~![; ":
        name = name.split(mark)[0]
    return name.lower().replace("_", "-").replace(".", "-")


@pytest.mark.parametrize("command", sorted(CONFIG["project"]["scripts"]))
def test_a_command_line_exists(command: str) -> None:
    module, function = CONFIG["project"]["scripts"][command].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_plain_xdsl_opt_sees_the_project() -> None:
    (entry,) = entry_points(group="xdsl.universe", name="triton_dsl")
    assert entry.value == "triton_dsl.passes.universe:UNIVERSE"
    entry.load()


@pytest.mark.slow
def test_the_wheel_holds_every_source_file(tmp_path: Path) -> None:
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "*.py",
            "*.js",
            "*.json",
            "*.lark",
            "*.tri",
            "*.toml",
            "*.md",
            "LICENSE",
            "py.typed",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    tracked = [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]
    copy = tmp_path / "copy"
    for name in tracked:
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path)]
    done = subprocess.run([*build, str(copy)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    expected = {
        f"triton_dsl/{name}"
        for name in tracked
        if name in (*FACES, "py.typed") or name.split("/")[0] in FOLDERS
    }
    assert expected - packed == set()
    assert {name for name in packed if ".dist-info/" not in name} - expected == set()

    program = (
        "import triton_dsl\n"
        "from triton_dsl.spiking import LifNeuron\n"
        "from triton_dsl.targets import compile_to_target\n"
        "from triton_dsl.training import Trainer\n"
        "print(triton_dsl.__file__, triton_dsl.passes.TernarizePass.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path / "site",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )
    assert done.stdout.split() == [str(tmp_path / "site/triton_dsl/__init__.py"), "ternarize"]


def test_the_citation_is_of_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "cff-version: 1.2.0"
    assert f"version: {CONFIG['project']['version']}" in lines
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert CONFIG["project"]["version"] in changes
