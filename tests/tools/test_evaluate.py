"""`triton evaluate`: perplexities that Transformers recorded, and two engines beside each other."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.lowering.generation import open_session
from triton_dsl.runtime.perplexity import Perplexity, foretold
from triton_dsl.tools.cli import main
from triton_dsl.tools.commands import evaluate

from ..lowering.from_checkpoint.checkpoints import (
    KINDS,
    STRIDE,
    VOCABULARY,
    WINDOW,
    long_text,
    write_folder,
)

tokenizers: Any = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.usefixtures("compiled_here")

RECORDS = np.load(Path(__file__).parents[1] / "lowering/from_checkpoint/records.npz")


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("mistral", "native"),
        *((kind, "interpreter") for kind in ("bitnet-online", "qwen3", "llama-trits")),
        ("bitnet-packed", "onnx"),
    ],
)
def test_perplexity_is_that_of_transformers(kind: str, engine: str, tmp_path: Path) -> None:
    session, score = open_session(write_folder(kind, tmp_path), engine), Perplexity()
    for part in foretold(session, long_text().tolist(), WINDOW, STRIDE):
        score.add(part)
    np.testing.assert_allclose(score.nats, float(RECORDS[f"{kind}.nats"]), rtol=1e-4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BitNet whose tokens are letters and digits."""
    folder = write_folder("bitnet-packed", tmp_path_factory.mktemp("model") / "letters")
    words = [chr(n) for n in range(ord("0"), ord("0") + VOCABULARY)]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE({word: n for n, word in enumerate(words)}, [])
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("".join(chr(ord("0") + token) for token in long_text()))
    return file


def report(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert main(["evaluate", *map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("few_counts")
def test_the_report(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--text", text, "--window", WINDOW, "--stride", STRIDE]
    found = report(capsys, model, *options)
    nats = float(RECORDS["bitnet-packed.nats"])
    assert found["scored"] == found["bytes"] == 149 and found["tokens"] == 150
    assert found["nats"] == pytest.approx(nats, rel=1e-4)
    assert found["perplexity"] == pytest.approx(np.exp(nats / 149), rel=1e-2)
    assert found["bits_per_byte"] == pytest.approx(nats / np.log(2) / 149, rel=1e-4)
    fewer = report(capsys, model, *options, "--tokens", 40, "--engine", "interpreter")
    assert fewer["scored"] == fewer["bytes"] == 39
    assert main(["evaluate", str(model), *map(str, options), "--engine", "interpreter"]) == 0
    printed = capsys.readouterr()
    assert "149 tokens of" in printed.out and "bits a byte" in printed.out
    assert "windows of 64 tokens, 24 apart" in printed.err


def test_engines_beside_each_other(
    model: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--text", text, "--tokens", 30, "--engine", "pytorch", "-n", 8]
    options += ["--against", "interpreter"]
    found = report(capsys, model, *options)
    assert found["agrees"] and found["greedy"] == {"same": 8, "of": 8, "margin": None}
    assert found["same_choice"] == 1 and 0 < found["largest_difference"] < 0.1
    assert found["against"]["nats"] == pytest.approx(found["nats"], rel=1e-3)
    options = ["--text", text, "--engine", "pytorch", "--against", "interpreter"]
    options += ["-n", 3, "--tokens", 9, "--tolerance", 0]
    assert main(["evaluate", str(model), *map(str, options)]) == 1
    printed = capsys.readouterr()
    assert "3 of 3 tokens" in printed.out and "do not agree" in printed.err


def test_engines_that_part(
    model: Path, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other engine reads a model of another kind."""

    def opened(path: Path, engine: str) -> Any:
        other = write_folder("bitnet-online", path.parent / "other")
        return open_session(other if engine == "interpreter" else path, engine)

    monkeypatch.setattr(evaluate, "open_session", opened)
    options = ["--text", text, "--tokens", 60, "--engine", "pytorch", "-n", 20]
    options += ["--against", "interpreter"]
    found = report(capsys, model, *options, code=1)
    assert found["greedy"]["same"] < 20 and found["greedy"]["margin"] > 0
    assert found["largest_difference"] > 1 and found["same_choice"] < 0.5


@pytest.mark.slow
@pytest.mark.usefixtures("transformers")
def test_transformers_reads_the_same_folder(
    model: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = report(capsys, model, "--text", text, "--against", "transformers")
    assert found["agrees"] and found["against"]["engine"].startswith("transformers ")
    assert found["greedy"]["same"] == 256


@pytest.mark.slow
@pytest.mark.usefixtures("transformers")
@pytest.mark.parametrize("kind", KINDS)
def test_sessions_of_transformers(kind: str, tmp_path: Path) -> None:
    session, score = open_session(write_folder(kind, tmp_path), "transformers"), Perplexity()
    for part in foretold(session, long_text().tolist(), WINDOW, STRIDE):
        score.add(part)
    np.testing.assert_allclose(score.nats, float(RECORDS[f"{kind}.nats"]), rtol=1e-6)
    session.rewind(30)
    again = session.feed_all(long_text()[60:64].tolist())
    other = session.another()
    other.feed(long_text()[96:126].tolist())
    np.testing.assert_allclose(other.feed(long_text()[60:64].tolist()), again[-1], atol=1e-4)


@pytest.mark.usefixtures("few_counts")
def test_what_is_missing(
    model: Path,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def without(name: str) -> Any:
        return None if name == "transformers" else find_spec(name)

    module = "triton_dsl.lowering.generation.transformers_session.find_spec"
    monkeypatch.setattr(module, without)
    short, binary = tmp_path / "short.txt", tmp_path / "binary.txt"
    short.write_text("0")
    binary.write_bytes(b"\xff\xfe0")
    for options, code, words in (
        (["--text", text, "--against", "transformers"], 1, "pip install transformers accelerate"),
        (["--text", text, "--against", "native"], 2, "is the engine itself"),
        (["--text", short], 1, "has 1 tokens"),
        (["--text", binary], 1, "not UTF-8 text at byte 0"),
        (["--text", tmp_path / "none.txt"], 1, "none.txt': No such file"),
    ):
        assert main(["evaluate", str(model), *map(str, options)]) == code
        printed = capsys.readouterr()
        assert words in printed.err and not printed.out and "Traceback" not in printed.err
