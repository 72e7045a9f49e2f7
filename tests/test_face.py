"""The package's own names: all there, loaded on first use only."""

import subprocess
import sys

import pytest

import triton_dsl


@pytest.mark.parametrize("name", sorted(triton_dsl._HOME))  # pyright: ignore[reportPrivateUsage]
def test_a_public_name_loads(name: str) -> None:
    value = getattr(triton_dsl, name)
    assert value.__name__ == name
    assert name in dir(triton_dsl)


def test_a_star_import_brings_the_compiler_and_not_torch() -> None:
    program = (
        "from triton_dsl import *\n"
        "import sys\n"
        "print(TritonParser.__name__, compile_model.__name__, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["TritonParser", "compile_model", "False"]
    assert set(triton_dsl.__all__) <= triton_dsl._HOME.keys()  # pyright: ignore[reportPrivateUsage]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'triton_dsl' has no attribute 'nonsense'"):
        _ = triton_dsl.nonsense  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert triton_dsl.__version__ == version("triton-dsl")


def test_importing_the_package_loads_nothing_else() -> None:
    program = (
        "import sys, triton_dsl; print(*[m for m in sys.modules if m.startswith('triton_dsl.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
