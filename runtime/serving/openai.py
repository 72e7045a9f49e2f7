"""Requests and answers in the form of OpenAI's completions and chats, as far as it is served.

The form: https://platform.openai.com/docs/api-reference/completions and …/chat. What would change
an answer and is not served is refused, not ignored. Not here: who writes (`writing`).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, cast

from ...ir.errors import OptionError, refuse
from ...ir.settings import Settings
from ..generation import Sampling, Tokenizer
from ..language_model import LanguageModel
from .writing import Piece, TextRequest

_OPEN = 1 << 20
"""Tokens that a text may have where the model does not say its context."""

_MOST_TEXTS, _MOST_STOPS = 128, 16

_READ = {
    *("model", "prompt", "messages", "max_tokens", "max_completion_tokens", "n", "temperature"),
    *("top_p", "top_k", "seed", "stop", "logprobs", "top_logprobs", "stream", "stream_options"),
}
_HARMLESS = {"user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"}
_AT_REST: Mapping[str, Any] = {"best_of": 1, "response_format": {"type": "text"}}
"""Values of fields that change nothing, beside null, zero, false and nothing."""


def read_text_request(given: Settings, model: LanguageModel, *, chat: bool) -> TextRequest:
    """A request.

    Args:
        given: its JSON.
        model: that is asked.
        chat: whether messages are answered.

    Raises:
        OptionError: it is no such request, or asks for something that is not served.
    """
    fields = given.values
    for name, value in fields.items():
        rests = not value or value == _AT_REST.get(name)
        if name not in _READ and name not in _HARMLESS and not rests:
            given.refuse(f"'{name}' is not served here")
    prompts = [_chat(fields, model)] if chat else _prompts(fields, model)
    count = given.whole("n", 1, 1, _MOST_TEXTS)
    if count * len(prompts) > _MOST_TEXTS:
        given.refuse(f"a request has {_MOST_TEXTS} texts at most")
    sampling = Sampling(
        given.number("temperature", 1.0, (0, 100)),
        given.whole("top_k", 0, 0, _OPEN),
        given.number("top_p", 1.0, (0, 1)),
        given.whole("seed", secrets.randbits(32), -(1 << 63), 1 << 63) % (1 << 64),
    )
    most = _most(given, max(map(len, prompts)), model.facts.context, _OPEN if chat else 16)
    logs, name = fields.get("logprobs"), "top_logprobs" if chat else "logprobs"
    wanted = given.flag("logprobs") if chat else logs is not None and logs is not False
    likeliest = given.whole(name, 0, 0, 20) if wanted else None
    stops, stream = _stops(given), given.flag("stream")
    usage = given.part("stream_options").flag("include_usage")
    return TextRequest(chat, prompts, count, most, sampling, stops, likeliest, stream, usage)


def _chat(fields: Mapping[str, Any], model: LanguageModel) -> list[int]:
    messages: Any = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise OptionError("the request has no list 'messages'")
    read: list[Mapping[str, Any]] = []
    for message in cast("list[Any]", messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise OptionError("a message is a JSON object with a 'role'")
        read.append({**message, "content": _content(message.get("content"))})
    return model.prompt(read)


def _content(content: Any) -> str:
    """The text of a message: one, or parts of the type `text`."""
    if isinstance(content, str):
        return content
    parts = cast("list[Any]", content if isinstance(content, list) else [None])
    with suppress(KeyError, TypeError):
        if all(part["type"] == "text" for part in parts):
            return "".join(part["text"] for part in parts)
    raise OptionError("the content of a message is a text, or parts of the type 'text'")


def _prompts(fields: Mapping[str, Any], model: LanguageModel) -> list[list[int]]:
    """A text, several, the tokens of one, or those of several."""
    prompt: Any = fields.get("prompt")
    several = isinstance(prompt, list) and not _are_tokens(prompt)
    return [_prompt(each, model) for each in cast("list[Any]", prompt if several else [prompt])]


def _prompt(given: Any, model: LanguageModel) -> list[int]:
    if isinstance(given, str):
        return model.prompt(given)
    refuse(not given or not _are_tokens(given), "'prompt' is a text, tokens, or a list of such")
    model.session.check(given)
    return given


def _are_tokens(given: Any) -> bool:
    return isinstance(given, list) and all(type(t) is int for t in cast("list[Any]", given))


def _most(given: Settings, prompt: int, context: int | None, default: int) -> int:
    """How many tokens a text may have."""
    room = (context or _OPEN) - prompt
    newer = given.values.get("max_completion_tokens") is not None
    name = "max_completion_tokens" if newer else "max_tokens"
    if room < 1:
        given.refuse(f"the prompt of {prompt} tokens fills the model's context of {context}")
    most = given.whole(name, min(room, default), 1, _OPEN)
    if most > room:
        given.refuse(
            f"{prompt} tokens of the prompt and '{name}' {most} are more than the model's "
            f"context of {context}"
        )
    return most


def _stops(given: Settings) -> list[str]:
    stop: Any = given.values.get("stop") or []
    words: list[Any] = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, str | list) or not all(isinstance(w, str) and w for w in words):
        given.refuse("'stop' is a text or a list of texts, none of them empty")
    if len(words) > _MOST_STOPS:
        given.refuse(f"'stop' has {len(words)} texts; {_MOST_STOPS} are the most")
    return words


class Answer:
    """The answer to a request, whole or piece by piece.

    Args:
        request: that is answered.
        model: its name.
        tokenizer: of the model.
    """

    def __init__(self, request: TextRequest, model: str, tokenizer: Tokenizer) -> None:
        self._request, self._tokenizer = request, tokenizer
        chat = request.chat
        kind = "chat.completion" if chat else "text_completion"
        self._head: dict[str, Any] = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(12)}",
            "object": f"{kind}.chunk" if chat and request.stream else kind,
            "created": int(time.time()),
            "model": model,
        }
        self._pieces: list[Piece] = []

    def begin(self) -> bytes:
        """What a stream begins with."""
        texts = self._request.count if self._request.chat else 0
        start = {"delta": {"role": "assistant", "content": ""}}
        return b"".join(self._event([self._choice([Piece(n, "")], start)]) for n in range(texts))

    def take(self, piece: Piece) -> bytes:
        """What a stream sends of a piece; it counts for a whole answer too."""
        self._pieces.append(piece)
        if not (piece.text or piece.finish or piece.chosen):
            return b""
        content = {"content": piece.text} if piece.text else {}
        return self._event([self._choice([piece], {"delta": content})])

    def end(self) -> bytes:
        """What a stream ends with."""
        last = self._event([], usage=self._usage()) if self._request.usage else b""
        return last + b"data: [DONE]\n\n"

    def whole(self) -> dict[str, Any]:
        """The answer at once."""
        choices: list[dict[str, Any]] = []
        for _, group in groupby(self._pieces, key=lambda piece: piece.index):
            pieces = list(group)
            said = "".join(piece.text for piece in pieces)
            message = {"role": "assistant", "content": said, "refusal": None}
            choices.append(self._choice(pieces, {"message": message}))
        return {**self._head, "choices": choices, "usage": self._usage()}

    def _event(self, choices: Sequence[Mapping[str, Any]], **more: Any) -> bytes:
        text = json.dumps({**self._head, "choices": choices, **more}, ensure_ascii=False)
        return f"data: {text}\n\n".encode()

    def _usage(self) -> dict[str, int]:
        prompt = sum(map(len, self._request.prompts))
        tokens = sum(piece.finish != "length" for piece in self._pieces)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
        }

    def _choice(self, pieces: Sequence[Piece], of_chat: Mapping[str, Any]) -> dict[str, Any]:
        """Pieces of a text, which stand in a chat as they are given."""
        said = {"text": "".join(piece.text for piece in pieces)}
        return {
            "index": pieces[0].index,
            **(of_chat if self._request.chat else said),
            "logprobs": self._logs([piece for piece in pieces if piece.chosen]),
            "finish_reason": pieces[-1].finish,
        }

    def _logs(self, pieces: Sequence[Piece]) -> dict[str, Any] | None:
        rows = [[self._named(*likely) for likely in piece.chosen] for piece in pieces]
        if not rows:
            return None
        if self._request.chat:
            entries = [{**first, "top_logprobs": others} for first, *others in rows]
            return {"content": entries, "refusal": None}
        top = [{entry["token"]: entry["logprob"] for entry in others} for _, *others in rows]
        return {
            "tokens": [first["token"] for first, *_ in rows],
            "token_logprobs": [first["logprob"] for first, *_ in rows],
            "top_logprobs": top if self._request.likeliest else None,
            "text_offset": [piece.place for piece in pieces],
        }

    def _named(self, token: int, log_probability: float) -> dict[str, Any]:
        name = self._tokenizer.decode([token], special=True)
        # A token that is a part of a character has bytes that its text does not tell.
        told = None if "\ufffd" in name else [*name.encode()]
        return {"token": name, "logprob": max(log_probability, -9999.0), "bytes": told}
