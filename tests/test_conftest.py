"""Absent programs fail in continuous integration alone, and the package is imported once."""

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


def test_the_package_is_imported_under_one_name_whatever_its_folder_is_called() -> None:
    root = Path(__file__).resolve().parent.parent / "__init__.py"
    files = {name: vars(module).get("__file__") for name, module in list(sys.modules.items())}
    copies = [name for name, file in files.items() if file and Path(file).resolve() == root]
    assert set(copies) <= {"triton_dsl"}
