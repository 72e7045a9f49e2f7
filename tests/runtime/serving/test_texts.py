"""Completions and chats of language models, asked by OpenAI's own client."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
import openai
import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import OptionError, SourceError
from triton_dsl.ir.settings import Settings
from triton_dsl.runtime.generation import Sampling, Tokenizer, choices
from triton_dsl.runtime.language_model import LanguageModel, TextFacts
from triton_dsl.runtime.serving import server as serving
from triton_dsl.runtime.serving.access import Guard
from triton_dsl.runtime.serving.audit import AuditLog, read_audit
from triton_dsl.runtime.serving.batching import Limits
from triton_dsl.runtime.serving.openai import read_text_request
from triton_dsl.runtime.serving.policy import read_policy
from triton_dsl.runtime.serving.writing import ServedText, StopWords
from triton_dsl.runtime.session import Session
from triton_dsl.tools.commands.options.runs import Serve
from triton_dsl.tools.commands.serve import served_models, served_texts

from ...lowering.from_checkpoint.checkpoints import VOCABULARY, write_folder
from .test_server import running, until_ready

LETTERS = "abcdefghijklmnopqrstuvwxyz. "
END = 26
NUMBERS = count(1)


class Letters(Session):
    """Logits that hang on the last two tokens; notes what it is told."""

    def __init__(self) -> None:
        super().__init__(len(LETTERS), "letters")
        self.log: list[tuple[int, list[int]]] = []
        self.seconds = 0.0
        self.breaks = 1 << 20
        self.number = 0

    def _told(self, tokens: np.ndarray, count: int) -> np.ndarray:
        time.sleep(self.seconds)
        if tokens[-1] == LETTERS.index("x") or self.length > self.breaks:
            raise ValueError("the device is gone")
        self.log.append((self.number, tokens.tolist()))
        assert count == 1
        rng = np.random.default_rng([*self._tokens, *tokens.tolist()][-2:])
        logits = rng.normal(size=(1, len(LETTERS))).astype(np.float32) * 2
        logits[0, [END, LETTERS.index("x")]] = -5
        return logits

    def another(self) -> Self:
        other = super().another()
        other.number = next(NUMBERS)
        return other


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A token for each letter."""
    words = {word: number for number, word in enumerate(LETTERS)}
    made: Any = tokenizers.Tokenizer(tokenizers.models.BPE(words, []))
    made.decoder = tokenizers.decoders.Fuse()
    file = tmp_path_factory.mktemp("letters") / "tokenizer.json"
    made.save(str(file))
    return Tokenizer.of_file(file)


CHAT = "{% for message in messages %}{{ message.content }}.{% endfor %}"


def model_of(tokenizer: Tokenizer, session: Letters, context: int | None = None) -> LanguageModel:
    facts = TextFacts(frozenset({END}), CHAT, {}, context)
    return LanguageModel("letters", session, tokenizer, facts)


@contextmanager
def asked(
    tokenizer: Tokenizer, session: Letters, limits: Limits | None = None, **more: Any
) -> Generator[openai.OpenAI]:
    """A client of a server of one model."""
    texts = more.pop("texts", 4)
    served = ServedText("letters", lambda: model_of(tokenizer, session, **more), texts)
    app = serving.application([], limits, texts=[served])
    with running(app=app) as client:
        until_ready(client)
        with client_of(client) as asking:
            yield asking


def client_of(http: httpx.Client) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="any", max_retries=0)


def text_after(tokenizer: Tokenizer, prompt: str, count: int, sampling: Sampling) -> str:
    tokens = [token for token, _ in choices(Letters(), tokenizer.encode(prompt), count, sampling)]
    whole = tokens[: tokens.index(END)] if END in tokens else tokens
    return tokenizer.decode(whole)


def test_completions_whole_and_in_pieces(tokenizer: Tokenizer) -> None:
    with asked(tokenizer, Letters()) as client:
        (entry,) = client.models.list().data
        assert entry.id == client.models.retrieve("letters").id == "letters"
        whole = client.completions.create(
            model="letters", prompt="hello", max_tokens=20, temperature=0
        )
        drawn = client.completions.create(
            model="letters", prompt=["hello", "bye"], max_tokens=9, n=2, seed=5, top_p=0.8
        )
        stream = client.completions.create(
            model="letters", prompt="hello", max_tokens=20, temperature=0, stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        *pieces, last = list(stream)
    assert whole.choices[0].text == text_after(tokenizer, "hello", 20, Sampling())
    assert whole.choices[0].finish_reason == "length" and whole.object == "text_completion"
    assert whole.usage is not None and last.usage is not None and not last.choices
    assert (whole.usage.prompt_tokens, whole.usage.total_tokens) == (5, 25)
    assert last.usage == whole.usage
    assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text
    assert len(pieces) > 15 and pieces[-1].choices[0].finish_reason == "length"
    for index, choice in enumerate(drawn.choices):
        sampling = Sampling(1.0, top_p=0.8, seed=5 + index)
        assert choice.index == index
        assert choice.text == text_after(tokenizer, ("hello", "bye")[index // 2], 9, sampling)


def test_chats_whole_and_in_pieces(tokenizer: Tokenizer) -> None:
    messages: Any = [
        {"role": "system", "content": "be"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "he"}, {"type": "text", "text": "y"}],
        },
    ]
    with asked(tokenizer, Letters()) as client:
        options: Any = {"model": "letters", "messages": messages, "temperature": 0}
        whole = client.chat.completions.create(**options, max_completion_tokens=12)
        pieces = list(client.chat.completions.create(**options, max_tokens=12, stream=True))
    expected = text_after(tokenizer, "be.hey.", 12, Sampling())
    assert whole.choices[0].message.content == expected and whole.object == "chat.completion"
    assert pieces[0].choices[0].delta.role == "assistant"
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == expected
    assert {piece.object for piece in pieces} == {"chat.completion.chunk"}
    assert len({piece.id for piece in pieces}) == 1


def test_log_probabilities_are_a_softmax(tokenizer: Tokenizer) -> None:
    with asked(tokenizer, Letters()) as client:
        options: Any = {"model": "letters", "seed": 1, "temperature": 1.5}
        plain = client.completions.create(**options, prompt="abc", max_tokens=6, logprobs=3)
        chat = client.chat.completions.create(
            **options, messages=[{"role": "user", "content": "abc"}], max_tokens=6, logprobs=True
        )
    logs = plain.choices[0].logprobs
    assert logs is not None and logs.tokens is not None and logs.text_offset is not None
    assert "".join(logs.tokens) == plain.choices[0].text and logs.text_offset == [*range(6)]
    assert logs.token_logprobs is not None and logs.top_logprobs is not None
    told = Letters()
    start = tokenizer.encode("abc")
    for name, log, top in zip(logs.tokens, logs.token_logprobs, logs.top_logprobs, strict=True):
        expected = torch.log_softmax(torch.from_numpy(told.feed(start)).double(), 0)
        assert log == pytest.approx(float(expected[LETTERS.index(name)]))
        likeliest = expected.topk(3)
        assert list(top) == [LETTERS[n] for n in likeliest.indices.tolist()]
        assert list(top.values()) == pytest.approx(likeliest.values.tolist())
        start = [LETTERS.index(name)]
    content = chat.choices[0].logprobs
    assert content is not None and content.content is not None
    assert "".join(entry.token for entry in content.content) == chat.choices[0].message.content
    assert all(entry.bytes == [*entry.token.encode()] for entry in content.content)


def test_a_stop_word_ends_a_text_and_is_not_shown(tokenizer: Tokenizer) -> None:
    whole = text_after(tokenizer, "hello", 40, Sampling())
    word = whole[10:13]
    end = whole.index(word)
    with asked(tokenizer, Letters()) as client:
        options: Any = {"model": "letters", "prompt": "hello", "max_tokens": 40, "temperature": 0}
        one = client.completions.create(**options, stop=[whole[-1] + "never", word])
        pieces = list(client.completions.create(**options, stop=word, stream=True))
    assert one.choices[0].text == whole[:end] and one.choices[0].finish_reason == "stop"
    assert one.usage is not None and one.usage.completion_tokens == end + 3
    assert "".join(piece.choices[0].text for piece in pieces) == whole[:end]
    assert pieces[-1].choices[0].finish_reason == "stop"


@given(
    st.lists(st.text("ab", max_size=3), max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
)
def test_stop_words_are_found_where_they_begin(pieces: list[str], words: list[str]) -> None:
    """Beside a search of the whole text, at the piece that ends the first word."""
    held, shown, told = StopWords(words), "", ""
    for piece in pieces:
        told += piece
        text, found = held.take(piece)
        shown += text
        places = [told.find(word) for word in words if word in told]
        assert found == bool(places)
        if found:
            assert shown == told[: min(places)]
            return
        assert told.startswith(shown)
    assert shown + held.held == told


def test_several_are_written_at_once(tokenizer: Tokenizer) -> None:
    session = Letters()
    session.seconds = 0.002
    prompts = [letter * 3 for letter in "abcdefgh"]
    with asked(tokenizer, session, texts=3) as client, ThreadPoolExecutor(8) as pool:

        def answer(prompt: str) -> str:
            options: Any = {"model": "letters", "max_tokens": 30, "seed": 2}
            return client.completions.create(**options, prompt=prompt).choices[0].text

        answers = list(pool.map(answer, prompts))
    for prompt, text in zip(prompts, answers, strict=True):
        assert text == text_after(tokenizer, prompt, 30, Sampling(1.0, seed=2))
    turns = [number for number, _ in session.log]
    assert len(set(turns)) == 3
    changes = sum(a != b for a, b in pairwise(turns))
    assert changes > len(turns) / 3  # one after the other would be seven changes


def test_a_prompt_is_told_once(tokenizer: Tokenizer) -> None:
    """What a session knows of a prompt is not told again, also between prompts of others."""
    session = Letters()
    with asked(tokenizer, session) as client:
        options: Any = {"model": "letters", "max_tokens": 3, "temperature": 0}
        first = client.completions.create(**options, prompt="a" * 300).choices[0].text
        client.completions.create(**options, prompt="zz")
        again = "a" * 300 + first + "b"
        client.completions.create(**options, prompt=again)
    sizes = [len(tokens) for _, tokens in session.log if len(tokens) > 1]
    assert sizes == [128, 128, 44, 2, 2]  # the last letter of the answer was not told, and b


def test_a_reader_that_goes_stops_the_text(tokenizer: Tokenizer) -> None:
    session = Letters()
    session.seconds = 0.005
    with asked(tokenizer, session) as client:
        options: Any = {"model": "letters", "prompt": "abc", "max_tokens": 100_000}
        with client.completions.create(**options, stream=True) as stream:
            next(iter(stream))
        deadline, told = time.monotonic() + 120, -1
        while told != len(session.log) and time.monotonic() < deadline:
            told = len(session.log)
            time.sleep(0.3)
        assert told == len(session.log) < 20_000


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"prompt": 3}, "'prompt' is a text"),
    ({"prompt": []}, "'prompt' is a text|has no 'prompt'"),
    ({"prompt": [["a"]]}, "'prompt' is a text"),
    ({"prompt": [99]}, "token 99 is not in the vocabulary"),
    ({"prompt": [-1]}, "token -1 is not in the vocabulary"),
    ({"prompt": [1 << 70]}, f"token {1 << 70} is not in the vocabulary"),
    ({"seed": 1 << 64}, "'seed' is 18446744073709551616"),
    ({"max_tokens": 0}, "'max_tokens' is 0"),
    ({"max_completion_tokens": 0}, "'max_completion_tokens' is 0"),
    ({"max_tokens": 60}, "more than the model's context of 50"),
    ({"prompt": "a" * 50}, "fills the model's context of 50"),
    ({"temperature": -1}, "'temperature' is -1"),
    ({"temperature": "hot"}, "'temperature' is 'hot'"),
    ({"top_p": 0}, "top_p must be above 0"),
    ({"n": 1000}, "'n' is 1000"),
    ({"prompt": ["a"] * 129}, "128 texts at most"),
    ({"stop": [""]}, "none of them empty"),
    ({"stop": {"a": 1}}, "'stop' is a text or a list"),
    ({"stop": ["a"] * 17}, "16 are the most"),
    ({"logprobs": 99}, "'logprobs' is 99"),
    ({"frequency_penalty": 1}, "'frequency_penalty' is not served"),
    ({"tools": [{}]}, "'tools' is not served"),
    ({"stream_options": 3}, "'stream_options' is 3, expected an object"),
    ({"stream_options": {"include_usage": "yes"}}, "'include_usage' is 'yes'"),
    ({"stream": "true"}, "'stream' is 'true', expected true or false"),
]


def test_what_is_no_request_is_refused(tokenizer: Tokenizer) -> None:
    with (
        asked(tokenizer, Letters(), context=50) as client,
        httpx.Client(base_url=str(client.base_url), timeout=60) as http,
    ):
        post: Callable[..., Any] = http.post
        for fields, words in REFUSED:
            response = post("completions", json={"model": "letters", "prompt": "a"} | fields)
            assert response.status_code == 400, fields
            error = response.json()["error"]
            assert any(part in error["message"] for part in words.split("|")), error
            assert error["type"] == "invalid_request_error"
        for content, words in ((b"{", "is no JSON"), (b"[]", "is no JSON object")):
            response = post("chat/completions", content=content)
            assert response.status_code == 400 and words in response.json()["error"]["message"]
        for messages in (None, [], [3], [{"content": "a"}], [{"role": "user", "content": [{}]}]):
            response = post("chat/completions", json={"model": "letters", "messages": messages})
            assert response.status_code == 400, messages
        for place in ("prompt", "stop"):
            response = post(
                "completions", content=rb'{"prompt": "a", "%s": "\ud800"}' % place.encode()
            )
            assert response.status_code == (400 if place == "prompt" else 200), response.text
        drawn = [post("completions", json={"prompt": "a", "seed": s}).json() for s in (-1, -1, 7)]
        texts = [each["choices"][0]["text"] for each in drawn]
        assert texts[0] == texts[1] != texts[2]
        # What changes nothing is no reason to refuse, and one model need not be named.
        harmless = {"frequency_penalty": 0, "best_of": 1, "user": "a", "tools": None}
        assert post("completions", json={"prompt": "a", **harmless}).status_code == 200
        with pytest.raises(openai.NotFoundError, match=r"there is no language model 'other'"):
            client.completions.create(model="other", prompt="a")
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("other")


def test_what_fails_is_told(tokenizer: Tokenizer) -> None:
    session, gate = Letters(), threading.Event()

    def load() -> LanguageModel:
        assert gate.wait(60)
        return model_of(tokenizer, session)

    def broken() -> LanguageModel:
        raise OptionError("no such file")

    session.seconds = 0.01
    texts = [ServedText("letters", load, 1), ServedText("broken", broken)]
    app = serving.application([], Limits(waiting=1), texts=texts)
    with running(app=app) as http, client_of(http) as client:
        with pytest.raises(openai.InternalServerError, match="is still loading"):
            client.completions.create(model="letters", prompt="a")
        gate.set()
        while texts[1].problem is None:
            time.sleep(0.01)
        with pytest.raises(openai.InternalServerError, match="cannot be loaded: no such file"):
            client.completions.create(model="broken", prompt="a")
        with pytest.raises(openai.InternalServerError, match="the device is gone"):
            client.completions.create(model="letters", prompt="x")
        session.breaks = 5
        stream = client.completions.create(model="letters", prompt="a", seed=3, stream=True)
        with pytest.raises(openai.APIError, match="the device is gone"):
            list(stream)
        session.breaks = 1 << 20
        with ThreadPoolExecutor(8) as pool:
            options: Any = {"model": "letters", "prompt": "a", "max_tokens": 30, "temperature": 0}
            ask = [pool.submit(client.completions.create, **options) for _ in range(8)]
            failed = [each.exception() for each in ask]
        assert {type(error) for error in failed} == {type(None), openai.RateLimitError}
        figures = http.get("/metrics").text
    assert 'triton_requests_total{model="letters",status="429"}' in figures
    assert 'triton_requests_total{model="letters",status="503"} 1.0' in figures


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("abc", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text"]), inner, max_size=3)
    ),
    max_leaves=6,
)


FIELDS = (
    *("prompt", "messages", "max_tokens", "n", "temperature", "top_p", "top_k", "seed", "stop"),
    *("logprobs", "top_logprobs", "stream", "stream_options", "best_of", "user", "tools"),
)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(FIELDS), ANY),
    st.booleans(),
)
def test_any_request_is_read_or_refused(
    tokenizer: Tokenizer, fields: dict[str, Any], chat: bool
) -> None:
    model = model_of(tokenizer, Letters(), context=100)
    try:
        request = read_text_request(
            Settings.of_json(json.dumps(fields), "", OptionError), model, chat=chat
        )
    except OptionError:
        return
    assert 1 <= request.most < 100 and request.prompts[0]


def test_a_model_of_a_folder(tmp_path: Path) -> None:
    """Tokens that Transformers chose, through the command's own loader."""
    folder = write_folder("bitnet-packed", tmp_path / "BitNet-b1.58")
    words = {chr(ord("0") + n): n for n in range(VOCABULARY)}
    made: Any = tokenizers.Tokenizer(tokenizers.models.BPE(words, []))
    made.decoder = tokenizers.decoders.Fuse()
    made.save(str(folder / "tokenizer.json"))
    options = Serve([folder], target=["interpreter"])
    assert served_models(options) == []
    (served,) = served_texts(options)
    assert served.name == "BitNet-b1.58" and served.texts == 4
    with pytest.raises(OptionError, match="on one target"):
        served_texts(Serve([folder], target=["native", "onnx"]))
    with pytest.raises(SourceError, match="No such file"):
        served_texts(Serve([tmp_path / "a.gguf"]))
    records = np.load(Path(__file__).parents[2] / "lowering/from_checkpoint/records.npz")
    greedy = records["bitnet-packed.greedy"].tolist()
    app = serving.application([], texts=[served])
    with running(app=app) as http, client_of(http) as client:
        until_ready(http)
        answer = client.completions.create(
            model="BitNet-b1.58", prompt=greedy[:4], max_tokens=12, temperature=0
        )
        with pytest.raises(openai.BadRequestError, match="has no chat template"):
            client.chat.completions.create(
                model="BitNet-b1.58", messages=[{"role": "user", "content": "0"}]
            )
        with pytest.raises(openai.BadRequestError, match="context of 64"):
            client.completions.create(model="BitNet-b1.58", prompt="0", max_tokens=64)
    wanted = greedy[4:]
    ended = wanted.index(2) if 2 in wanted else len(wanted)
    assert answer.choices[0].text == "".join(chr(ord("0") + n) for n in wanted[:ended])


def test_a_policy_says_who_may_write(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Roles hold for models that the body names; the log has these names."""
    roles = (("writer", "run", "letters"), ("reader", "read", "other"))
    text = ""
    for name, action, models in roles:
        digest = hashlib.sha256(name.encode()).hexdigest()
        text += f'[roles.{name}]\n{action} = ["{models}"]\nburst = 50\n'
        text += f'[users.{name}]\nroles = ["{name}"]\ntoken_sha256 = "{digest}"\n'
    (tmp_path / "policy.toml").write_text(text)
    served = [
        ServedText(name, lambda: model_of(tokenizer, Letters())) for name in ("letters", "other")
    ]
    audit = AuditLog(tmp_path / "audit")
    app = Guard(serving.application([], texts=served), read_policy(tmp_path / "policy.toml"), audit)
    given: Any = {"prompt": "hello", "max_tokens": 20, "temperature": 0}
    with running(app=app) as http:
        until_ready(http)
        url = f"{http.base_url}/v1"
        clients = [openai.OpenAI(base_url=url, api_key=n, max_retries=0) for n, *_ in roles]
        stranger = openai.OpenAI(base_url=url, api_key="stranger", max_retries=0)
        writer, reader = clients
        answer = writer.completions.create(model="letters", **given)
        assert answer.choices[0].text == text_after(tokenizer, "hello", 20, Sampling())
        with pytest.raises(openai.PermissionDeniedError, match="may not run 'other'"):
            writer.completions.create(model="other", **given)
        with pytest.raises(openai.PermissionDeniedError):
            reader.chat.completions.create(model="other", messages=[])
        with pytest.raises(openai.NotFoundError, match=r"there are \['other'\]"):
            reader.completions.create(model="none", **given)
        with pytest.raises(openai.AuthenticationError):
            stranger.completions.create(model="letters", **given)
        assert [model.id for model in reader.models.list().data] == ["other"]
        assert reader.models.retrieve("other").id == "other" and not writer.models.list().data
        with pytest.raises(openai.PermissionDeniedError):
            reader.models.retrieve("letters")
        for client in (*clients, stranger):
            client.close()
    assert read_audit(tmp_path / "audit")[0] > 9
    entries = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert [(e["model"], e["status"]) for e in entries if e["action"] == "write"] == [
        ("letters", 200),
        ("other", 403),
        ("other", 403),
        ("", 404),
        ("", 401),
    ]
