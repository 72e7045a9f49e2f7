"""What every test may rely on: hypothesis profiles, and programs that may be absent."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Compiled kernels of test runs stay out of the user's own cache.
os.environ.setdefault(
    "TRITON_DSL_CACHE", str(Path(__file__).resolve().parent.parent / "build" / "kernels")
)


def in_ci() -> bool:
    """Whether a continuous integration service runs the tests."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


settings.register_profile("default", deadline=None, derandomize=in_ci(), max_examples=100)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def require_tool() -> Callable[[str, str], str]:
    """The path of an external program, or the end of the test: `require_tool(name, hint)`.

    A missing program skips the test on a user's machine, with `hint` saying how to install it. With
    the environment variable `CI` set it fails the test, so that nothing goes unchecked unnoticed.
    """

    def require(name: str, hint: str) -> str:
        path = shutil.which(name)
        if path is not None:
            return path
        message = f"'{name}' is not installed: {hint}"
        if in_ci():
            pytest.fail(message, pytrace=False)
        pytest.skip(message)

    return require
