"""What `--list-passes` says is what describing all passes gives, from the file or not."""

import json
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.tools import pass_index
from triton_dsl.tools.opt import main
from triton_dsl.tools.opt_describe import description_of_pass

RENEW = "python -m triton_dsl.tools.opt_describe renews it"


def test_the_file_is_up_to_date() -> None:
    assert pass_index.SAVED.read_text("utf-8") == pass_index.index(description_of_pass), RENEW


def test_the_file_knows_every_pass() -> None:
    assert json.loads(pass_index.SAVED.read_text("utf-8")).keys() == pass_index.indexed().keys(), (
        RENEW
    )


@pytest.mark.slow
def test_the_list_is_the_same_without_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts: list[str] = []
    for file in (pass_index.SAVED, tmp_path / "none.json"):
        monkeypatch.setattr(pass_index, "SAVED", file)
        assert main(["--list-passes", "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert len(json.loads(texts[0])) > 100


def test_what_was_made_from_other_sources_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("ternarize", "fuse-linear", "apply-pdl")
    passes = {name: pass_index.indexed()[name] for name in names}
    # Under another getter a name is that of a plug-in's pass.
    plugin = {"added": passes["ternarize"], "cse": passes["ternarize"]}
    asked: list[str] = []

    def describe(name: str, getter: pass_index.Getter) -> dict[str, Any]:
        asked.append(name)
        # As JSON has it: lists for tuples.
        return json.loads(json.dumps(description_of_pass(name, getter)))

    monkeypatch.setattr(pass_index, "SAVED", tmp_path / "passes.json")
    expected = pass_index.described_passes({**passes, **plugin}, describe)
    assert asked == [*names, *plugin]
    with monkeypatch.context() as few:
        few.setattr(pass_index, "indexed", lambda: passes)
        saved = pass_index.index(description_of_pass)
    pass_index.SAVED.write_text(saved, encoding="utf-8")
    asked.clear()
    assert pass_index.described_passes({**passes, **plugin}, describe) == expected
    assert asked == ["added", "cse"]
    changed = json.loads(saved)
    for name in ("fuse-linear", "apply-pdl"):
        changed[name]["sources"] = dict.fromkeys(changed[name]["sources"], "another")
    changed["ternarize"]["sources"]["passes/gone.py:Gone"] = "another"
    pass_index.SAVED.write_text(json.dumps(changed), encoding="utf-8")
    asked.clear()
    assert pass_index.described_passes(passes, describe) == expected[:3]
    assert asked == ["ternarize", "fuse-linear", "apply-pdl"]
