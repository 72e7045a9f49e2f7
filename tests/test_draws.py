"""Random draws: the same in every run by default, others with a seed, which a failure prints."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROPERTIES = """
from hypothesis import given, settings, strategies as st

DRAWN, MORE = [], []

@settings(max_examples=40)
@given(st.integers(0, 2**60))
def test_numbers(number):
    DRAWN.append(number)

def test_drawn():
    print("drawn", len(DRAWN), DRAWN)

@given(st.integers(0, 2**60))
def test_fails(number):
    print("drawn", number)
    MORE.append(number)
    assert len(MORE) < 20
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the conftest file of this one; of the plugin that it names nothing is used."""
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "filled_modules.py").touch()
    (tmp_path / "test_properties.py").write_text(PROPERTIES)
    return tmp_path


def run(project: Path, *command: str) -> str:
    """What a run of pytest prints."""
    return subprocess.run(command, cwd=project, capture_output=True, text=True).stdout


def draws(project: Path, *options: str) -> list[int]:
    """What `test_numbers` draws."""
    tests = [f"test_properties.py::{name}" for name in ("test_numbers", "test_drawn")]
    text = run(project, sys.executable, "-m", "pytest", "-s", *options, *tests)
    found = re.search(r"drawn (\d+) \[(.*)\]", text)
    assert found, text
    numbers = list(map(int, found[2].split(",")))
    assert len(numbers) == int(found[1])
    return numbers


def test_draws_are_fixed_but_for_a_seed_or_a_profile(project: Path) -> None:
    fixed = draws(project)
    assert len(fixed) == 10
    assert draws(project) == fixed
    seeded, fresh = (
        draws(project, "--hypothesis-seed=1"),
        draws(project, "--hypothesis-profile=fresh"),
    )
    assert len(seeded) == len(fresh) == 10
    assert seeded != fixed and fresh != fixed and seeded != fresh


@pytest.mark.parametrize(
    "options", [["fresh", "-n", "1"], pytest.param(["thorough"], marks=pytest.mark.slow)]
)
def test_a_failure_prints_what_draws_the_same(project: Path, options: list[str]) -> None:
    first = run(project, sys.executable, "-m", "pytest", "--hypothesis-profile", *options)
    (header,) = re.findall("random draws, again by: (.*)", first)
    (again,) = re.findall("The same again: (.*)", first)
    assert again == f"{header} test_properties.py::test_fails"
    assert "@reproduce_failure(" in first
    captured = re.compile("^drawn .*", re.MULTILINE)
    numbers = captured.findall(first)
    assert len(numbers) >= 20
    assert captured.findall(run(project, *shlex.split(again))) == numbers
