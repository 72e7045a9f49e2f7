"""A program that is not installed fails a test in continuous integration, and only there."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RequireTool = Callable[[str, str], str]


def test_an_installed_program_is_found(require_tool: RequireTool) -> None:
    assert Path(require_tool(sys.executable, "")) == Path(sys.executable)


@pytest.mark.parametrize("value", ["true", "1"])
def test_a_missing_program_fails_in_ci(
    value: str, require_tool: RequireTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", value)
    with pytest.raises(pytest.fail.Exception, match="'no-such-tool' is not installed: get it"):
        require_tool("no-such-tool", "get it")


@pytest.mark.parametrize("value", ["", "false"])
def test_a_missing_program_skips_elsewhere(
    value: str, require_tool: RequireTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", value)
    with pytest.raises(pytest.skip.Exception, match="'no-such-tool' is not installed: get it"):
        require_tool("no-such-tool", "get it")
