"""Sessions on every engine choose the tokens that Transformers chose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.lowering.generation import native_code, open_session
from triton_dsl.runtime.generation import generate

from ..from_checkpoint.checkpoints import KINDS, VOCABULARY, tokens, write_folder

RECORDS = np.load(Path(__file__).parents[1] / "from_checkpoint" / "records.npz")

CASES = [
    *((kind, "native") for kind in ("llama-bfloat16", "qwen3")),
    pytest.param("llama-trits", "native", marks=pytest.mark.slow),
    *(("bitnet-packed", engine) for engine in ("native", "interpreter", "onnx", "pytorch")),
]


@pytest.mark.usefixtures("few_counts", "compiled_here")
@pytest.mark.parametrize(("kind", "engine"), CASES)
def test_tokens_are_those_of_transformers(kind: str, engine: str, tmp_path: Path) -> None:
    session = open_session(write_folder(kind, tmp_path), engine)
    logits = session.feed(tokens()[0].tolist())
    expected = RECORDS[f"{kind}.logits"][0, -1]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=2e-5)
    session.reset()
    greedy = RECORDS[f"{kind}.greedy"].tolist()
    assert list(generate(session, greedy[:4], len(greedy) - 4)) == greedy[4:]
    assert session.length == len(greedy) - 1


@pytest.mark.usefixtures("compiled_here")
@pytest.mark.parametrize("kind", ["mistral"])
def test_a_prompt_in_chunks_is_one_text(kind: str, tmp_path: Path) -> None:
    """Prompts longer than a chunk, told in pieces of any size, beyond the room of a cache."""
    rng = np.random.default_rng(3)
    text = rng.integers(0, VOCABULARY, 300).tolist()
    whole = open_session(write_folder(kind, tmp_path), "interpreter")
    expected = {end: whole.feed(text[start:end]) for start, end in ((0, 40), (40, 299), (299, 300))}
    session = open_session(tmp_path, "native")
    told = 0
    for end in (1, 3, 15, 40, 77, 260, 299, 300):
        logits = session.feed(text[told:end])
        told = end
        if end in expected:
            np.testing.assert_allclose(logits, expected[end], rtol=1e-3, atol=1e-3)
    assert session.length == 300


def test_tokens_that_are_none(tmp_path: Path) -> None:
    session = open_session(str(write_folder("llama", tmp_path)), "interpreter")
    with pytest.raises(OptionError, match=f"token {VOCABULARY} is not in the vocabulary"):
        session.feed([1, VOCABULARY])
    with pytest.raises(OptionError, match="at least one token"):
        session.feed([])
    assert session.length == 0


def test_an_engine_without_options(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'transformers\{a=1\}': .* has no options"):
        open_session(write_folder("llama", tmp_path), "transformers{a=1}")


def test_all_kinds_are_tried() -> None:
    assert {getattr(case, "values", case)[0] for case in CASES} <= set(KINDS)


@pytest.mark.usefixtures("few_counts", "compiled_here")
@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_sessions_forget_and_multiply(engine: str, tmp_path: Path) -> None:
    session = open_session(write_folder("bitnet-packed", tmp_path), engine)
    text = tokens()[0].tolist()
    expected = RECORDS["bitnet-packed.logits"][0]

    def near(actual: np.ndarray, wanted: np.ndarray) -> None:
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=2e-5)

    near(session.feed_all(text), expected)
    session.rewind(4)
    other = session.another()
    near(session.feed_all(text[4:7]), expected[4:7])
    near(other.feed(text[:3]), expected[2])
    near(session.feed(text[7:8]), expected[7])
    near(other.feed_all(text[3:]), expected[3:])
    assert session.keep([*text[:5], VOCABULARY - 1, 3]) == session.length == 5
    near(session.feed(text[5:6]), expected[5])
    assert session.keep(text[:6]) == 5 and session.keep(text[:1]) == 0 and other.length == len(text)
    with pytest.raises(OptionError, match="9 tokens were told; not 10"):
        other.rewind(10)


@pytest.mark.usefixtures("few_counts")
def test_native_code_is_kept_and_its_options_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder("bitnet-packed", tmp_path / "model")
    with pytest.raises(OptionError, match="avx3"):
        open_session(folder, "native{recipe=avx3}")
    first = open_session(folder, "native").feed([1, 2, 3])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    kept = open_session(folder, "native")
    np.testing.assert_array_equal(kept.feed([1, 2, 3]), first)
    monkeypatch.setenv("TRITON_DSL_CACHE", "off")
    with pytest.raises(BackendError, match="none' cannot be run"):
        open_session(folder, "native")


def test_another_compiler_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is where the package was updated while a process goes on with the one before."""
    monkeypatch.setenv("TRITON_DSL_CACHE", "off")
    monkeypatch.setattr(native_code, "source_digest", lambda *_: b"before")
    with pytest.raises(BackendError, match="changed after this process began: start it anew"):
        open_session(write_folder("bitnet-packed", tmp_path), "native")


@pytest.mark.usefixtures("few_counts")
def test_what_runs_on_native_code_loads_no_compiler(tmp_path: Path) -> None:
    """Neither the IR nor other engines are in the memory of a process that runs a model."""
    folder = write_folder("bitnet-packed", tmp_path / "model")
    program = (
        "import sys; from triton_dsl.lowering.generation import native_session; "
        "native_session.COUNTS, native_session.default_threads = {8: 6, 1: 1}, lambda: 1; "
        "from triton_dsl.targets import open_session; "
        f"print(open_session({str(folder)!r}).feed([1, 2, 3]).argmax(), "
        "*({'xdsl', 'torch', 'onnx', 'tokenizers'} & sys.modules.keys()))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [str(open_session(folder, "native").feed([1, 2, 3]).argmax())]
