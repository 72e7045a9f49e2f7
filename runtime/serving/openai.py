"""Requests and answers in the form of OpenAI's completions and chats, as far as it is served.

The form: https://platform.openai.com/docs/api-reference/completions and …/chat. What would change
an answer and is not served is refused, not ignored. Not here: who writes (`writing`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ...ir.errors import OptionError
from ..generation import Sampling, Tokenizer
from .writing import Asked, Likely, Piece, TextModel

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


@dataclass(frozen=True)
class TextRequest:
    """What a client asks for.

    Attributes:
        chat: whether an answer to messages is asked for.
        asked: the texts.
        stream: whether pieces are sent as they come.
        usage: whether the stream ends with numbers of tokens.
    """

    chat: bool
    asked: Asked
    stream: bool
    usage: bool


def read_text_request(fields: Mapping[str, Any], model: TextModel, *, chat: bool) -> TextRequest:
    """A request.

    Args:
        fields: of its JSON.
        model: that is asked.
        chat: whether messages are answered.

    Raises:
        OptionError: it is no such request, or asks for something that is not served.
    """
    for name, value in fields.items():
        rests = not value or value == _AT_REST.get(name)
        if name not in _READ and name not in _HARMLESS and not rests:
            raise OptionError(f"'{name}' is not served here")
    prompts = [_chat(fields, model)] if chat else _prompts(fields, model)
    count = _whole(fields, "n", 1, 1, _MOST_TEXTS)
    if count * len(prompts) > _MOST_TEXTS:
        raise OptionError(f"a request has {_MOST_TEXTS} texts at most")
    sampling = Sampling(
        _number(fields, "temperature", 1.0, 0, 100),
        _whole(fields, "top_k", 0, 0, _OPEN),
        _number(fields, "top_p", 1.0, 0, 1),
        _whole(fields, "seed", secrets.randbits(32), 0, 1 << 63),
    )
    most = _most(fields, max(map(len, prompts)), model.context, 16 if not chat else None)
    asked = Asked(prompts, count, most, sampling, _stops(fields), _likeliest(fields, chat))
    options: Any = fields.get("stream_options") or {}
    if not isinstance(options, dict):
        raise OptionError("'stream_options' is no JSON object")
    usage = cast("Mapping[str, Any]", options).get("include_usage") is True
    return TextRequest(chat, asked, fields.get("stream") is True, usage)


def _chat(fields: Mapping[str, Any], model: TextModel) -> list[int]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise OptionError("the request has no list 'messages'")
    read: list[Mapping[str, Any]] = []
    for message in cast("list[Any]", messages):
        if not isinstance(message, dict):
            raise OptionError("a message is no JSON object")
        known = cast("Mapping[str, Any]", message)
        if not isinstance(known.get("role"), str):
            raise OptionError("a message has no 'role'")
        read.append({**known, "content": _content(known.get("content"))})
    return model.prompt(read)


def _content(content: Any) -> str:
    """The text of a message: one, or parts of the type `text`."""
    if isinstance(content, str):
        return content
    parts: list[Any] = cast("list[Any]", content) if isinstance(content, list) else [None]
    texts = [
        cast("dict[str, Any]", part).get("text")
        for part in parts
        if isinstance(part, dict) and cast("dict[str, Any]", part).get("type") == "text"
    ]
    if len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise OptionError("the content of a message is a text, or parts of the type 'text'")
    return "".join(cast("list[str]", texts))


def _prompts(fields: Mapping[str, Any], model: TextModel) -> list[list[int]]:
    """A text, several, the tokens of one, or those of several."""
    prompt: Any = fields.get("prompt")
    one = not isinstance(prompt, list) or _are_tokens(cast("Any", prompt))
    listed: list[Any] = [prompt] if one else list(cast("list[Any]", prompt))
    prompts: list[list[int]] = []
    for given in listed:
        if isinstance(given, str):
            prompts.append(model.prompt(given))
        elif given and _are_tokens(given):
            prompts.append(cast("list[int]", given))
        else:
            raise OptionError("'prompt' is a text, tokens, or a list of such")
    if not prompts:
        raise OptionError("the request has no 'prompt'")
    return prompts


def _are_tokens(given: Any) -> bool:
    return isinstance(given, list) and all(type(t) is int for t in cast("list[Any]", given))


def _most(fields: Mapping[str, Any], prompt: int, context: int | None, default: int | None) -> int:
    """How many tokens a text may have."""
    room = (context or _OPEN) - prompt
    name = "max_completion_tokens" if fields.get("max_completion_tokens") else "max_tokens"
    if room < 1:
        raise OptionError(f"the prompt of {prompt} tokens fills the model's context of {context}")
    most = _whole(fields, name, min(room, default or room), 1, _OPEN)
    if most > room:
        raise OptionError(
            f"{prompt} tokens of the prompt and '{name}' {most} are more than the model's "
            f"context of {context}"
        )
    return most


def _stops(fields: Mapping[str, Any]) -> list[str]:
    stop: Any = fields.get("stop") or []
    words: list[Any] = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, str | list) or not all(isinstance(w, str) and w for w in words):
        raise OptionError("'stop' is a text or a list of texts, none of them empty")
    if len(words) > _MOST_STOPS:
        raise OptionError(f"'stop' has {len(words)} texts; {_MOST_STOPS} are the most")
    return words


def _likeliest(fields: Mapping[str, Any], chat: bool) -> int | None:
    if not chat:
        wanted = fields.get("logprobs")
        return None if wanted is None or wanted is False else _whole(fields, "logprobs", 0, 0, 20)
    return _whole(fields, "top_logprobs", 0, 0, 20) if fields.get("logprobs") is True else None


def _whole(fields: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if type(value) is not int or not low <= value <= high:
        raise OptionError(f"'{name}' is {value!r}, expected a whole number from {low} to {high}")
    return value


def _number(fields: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    value = fields.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not low <= value <= high:
        raise OptionError(f"'{name}' is {value!r}, expected a number from {low} to {high}")
    return float(value)


@dataclass
class _Text:
    """A text so far."""

    parts: list[str] = field(default_factory=list[str])
    logs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    finish: str | None = None


class Answer:
    """The answer to a request, whole or piece by piece.

    Args:
        request: that is answered.
        model: its name.
        tokenizer: of the model.
        created: seconds of Unix.
    """

    def __init__(
        self, request: TextRequest, model: str, tokenizer: Tokenizer, created: int
    ) -> None:
        self._request, self._tokenizer = request, tokenizer
        chat = request.chat
        kind = "chat.completion" if chat else "text_completion"
        self._head: dict[str, Any] = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(12)}",
            "object": f"{kind}.chunk" if chat and request.stream else kind,
            "created": created,
            "model": model,
        }
        texts = request.asked.count * len(request.asked.prompts)
        self._texts = [_Text() for _ in range(texts)]
        self._places = [0] * texts
        self.tokens = 0

    @property
    def prompt_tokens(self) -> int:
        """Of all prompts."""
        return sum(map(len, self._request.asked.prompts))

    def begin(self) -> list[bytes]:
        """What a stream begins with."""
        if not self._request.chat:
            return []
        delta = {"role": "assistant", "content": ""}
        return [
            self._event([{"index": n, "delta": delta, "logprobs": None, "finish_reason": None}])
            for n in range(len(self._texts))
        ]

    def take(self, piece: Piece) -> list[bytes]:
        """What a stream sends of a piece; it counts for a whole answer too."""
        text = self._texts[piece.index]
        text.parts.append(piece.text)
        text.finish = piece.finish
        self.tokens += piece.tokens
        entry = self._log(piece) if piece.chosen else None
        if entry is not None:
            text.logs.append(entry)
        self._places[piece.index] += len(piece.text)
        if not self._request.stream or not (piece.text or piece.finish or entry):
            return []
        logs = None if entry is None else self._logs([entry])
        choice: dict[str, Any] = {"index": piece.index, "logprobs": logs}
        shown = {"content": piece.text} if piece.text else {}
        choice |= {"delta": shown} if self._request.chat else {"text": piece.text}
        return [self._event([{**choice, "finish_reason": piece.finish}])]

    def end(self) -> list[bytes]:
        """What a stream ends with."""
        last = [self._event([], usage=self._usage())] if self._request.usage else []
        return [*last, b"data: [DONE]\n\n"]

    def whole(self) -> dict[str, Any]:
        """The answer at once."""
        choices: list[dict[str, Any]] = []
        for index, text in enumerate(self._texts):
            said = "".join(text.parts)
            logs = self._logs(text.logs) if self._request.asked.likeliest is not None else None
            choice: dict[str, Any] = {"index": index, "logprobs": logs}
            message = {"role": "assistant", "content": said, "refusal": None}
            choice |= {"message": message} if self._request.chat else {"text": said}
            choices.append({**choice, "finish_reason": text.finish})
        return {**self._head, "choices": choices, "usage": self._usage()}

    def _event(self, choices: Sequence[Mapping[str, Any]], **more: Any) -> bytes:
        text = json.dumps({**self._head, "choices": choices, **more}, ensure_ascii=False)
        return f"data: {text}\n\n".encode()

    def _usage(self) -> dict[str, int]:
        prompt = self.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self.tokens,
            "total_tokens": prompt + self.tokens,
        }

    def _log(self, piece: Piece) -> dict[str, Any]:
        """The entry of a token in the form of chats, with its place for completions."""
        chosen, *others = (self._named(each) for each in piece.chosen)
        return {**chosen, "top_logprobs": others, "place": self._places[piece.index]}

    def _named(self, likely: Likely) -> dict[str, Any]:
        name = self._tokenizer.piece(likely.token)
        log = max(likely.log_probability, -9999.0)
        return {"token": name, "logprob": log, "bytes": [*name.encode()]}

    def _logs(self, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        if self._request.chat:
            kept = [{k: v for k, v in entry.items() if k != "place"} for entry in entries]
            return {"content": kept, "refusal": None}
        top = [{t["token"]: t["logprob"] for t in entry["top_logprobs"]} for entry in entries]
        return {
            "tokens": [entry["token"] for entry in entries],
            "token_logprobs": [entry["logprob"] for entry in entries],
            "top_logprobs": top if self._request.asked.likeliest else None,
            "text_offset": [entry["place"] for entry in entries],
        }
