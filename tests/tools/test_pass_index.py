"""What is kept of `--list-passes` is what describing all passes gives, and never outlives it."""

import json
from pathlib import Path

import pytest

from triton_dsl.tools import pass_index
from triton_dsl.tools.opt import main


@pytest.mark.slow
def test_the_index_says_what_the_passes_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts: list[str] = []
    for folder in ("off", str(tmp_path), str(tmp_path)):
        monkeypatch.setenv("TRITON_DSL_CACHE", folder)
        assert main(["--list-passes", "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    assert len(json.loads(texts[0])) > 100


def test_a_change_makes_another_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_DSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pass_index, "_ROOT", tmp_path)
    monkeypatch.setattr(pass_index, "_FOLDERS", ("passes",))
    (tmp_path / "passes").mkdir()
    source = tmp_path / "passes" / "one.py"
    source.write_text("1", encoding="utf-8")
    passes = {name: pass_index.UNIVERSE.all_passes[name] for name in ("ternarize", "fuse-linear")}
    plugin = {"added": pass_index.UNIVERSE.all_passes["ternarize"]}
    asked: list[str] = []

    def describe(name: str, getter: pass_index.Getter) -> dict[str, str]:
        asked.append(name)
        return {"name": name, "package": "triton_dsl"}

    for _ in range(2):
        found = pass_index.described_passes({**passes, **plugin}, describe)
        assert [row["name"] for row in found] == ["ternarize", "fuse-linear", "added"]
    # A pass that is not ours or xDSL's is described each time.
    assert sorted(asked) == ["added", "added", "fuse-linear", "ternarize"]
    source.write_text("12", encoding="utf-8")
    pass_index.described_passes(passes, describe)
    assert asked[4:] == ["fuse-linear", "ternarize"]
