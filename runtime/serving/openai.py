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
from ...ir.settings import Settings
from ..generation import Sampling, Tokenizer
from ..language_model import LanguageModel
from .writing import Likely, Piece, TextRequest

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


def read_text_request(
    fields: Mapping[str, Any], model: LanguageModel, *, chat: bool
) -> TextRequest:
    """A request.

    Args:
        fields: of its JSON.
        model: that is asked.
        chat: whether messages are answered.

    Raises:
        OptionError: it is no such request, or asks for something that is not served.
    """
    given = Settings(fields, error=OptionError)
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
    wanted = logs is True if chat else logs is not None and logs is not False
    likeliest = given.whole(name, 0, 0, 20) if wanted else None
    stops, stream = _stops(given), fields.get("stream") is True
    usage = given.part("stream_options").values.get("include_usage") is True
    return TextRequest(chat, prompts, count, most, sampling, stops, likeliest, stream, usage)


def _chat(fields: Mapping[str, Any], model: LanguageModel) -> list[int]:
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


def _prompts(fields: Mapping[str, Any], model: LanguageModel) -> list[list[int]]:
    """A text, several, the tokens of one, or those of several."""
    prompt: Any = fields.get("prompt")
    one = not isinstance(prompt, list) or _are_tokens(cast("Any", prompt))
    listed: list[Any] = [prompt] if one else list(cast("list[Any]", prompt))
    prompts: list[list[int]] = []
    for given in listed:
        if isinstance(given, str):
            prompts.append(model.prompt(given))
        elif given and _are_tokens(given):
            model.session.check(given)
            prompts.append(cast("list[int]", given))
        else:
            raise OptionError("'prompt' is a text, tokens, or a list of such")
    if not prompts:
        raise OptionError("the request has no 'prompt'")
    return prompts


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


@dataclass
class _Text:
    """A text so far, with an entry in the form of chats for each token that has log-probabilities.

    An entry's `place` is where its token begins.
    """

    said: str = ""
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
        self._texts = [_Text() for _ in range(request.count * len(request.prompts))]
        self._tokens = 0

    def begin(self) -> list[bytes]:
        """What a stream begins with."""
        texts = range(len(self._texts) if self._request.chat else 0)
        start = {"delta": {"role": "assistant", "content": ""}}
        return [self._event([self._choice(n, start, None, None)]) for n in texts]

    def take(self, piece: Piece) -> list[bytes]:
        """What a stream sends of a piece; it counts for a whole answer too."""
        text, new = self._texts[piece.index], piece.text
        logs = self._logs_of(piece.chosen, len(text.said))
        text.said += new
        text.logs += logs
        text.finish = piece.finish
        self._tokens += piece.tokens
        if not self._request.stream or not (new or piece.finish or logs):
            return []
        shown = {"delta": {"content": new} if new else {}} if self._request.chat else {"text": new}
        return [self._event([self._choice(piece.index, shown, logs or None, piece.finish)])]

    def end(self) -> list[bytes]:
        """What a stream ends with."""
        last = [self._event([], usage=self._usage())] if self._request.usage else []
        return [*last, b"data: [DONE]\n\n"]

    def whole(self) -> dict[str, Any]:
        """The answer at once."""
        choices: list[dict[str, Any]] = []
        for index, text in enumerate(self._texts):
            message = {"role": "assistant", "content": text.said, "refusal": None}
            shown = {"message": message} if self._request.chat else {"text": text.said}
            logs = None if self._request.likeliest is None else text.logs
            choices.append(self._choice(index, shown, logs, text.finish))
        return {**self._head, "choices": choices, "usage": self._usage()}

    def _event(self, choices: Sequence[Mapping[str, Any]], **more: Any) -> bytes:
        text = json.dumps({**self._head, "choices": choices, **more}, ensure_ascii=False)
        return f"data: {text}\n\n".encode()

    def _usage(self) -> dict[str, int]:
        prompt = sum(map(len, self._request.prompts))
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self._tokens,
            "total_tokens": prompt + self._tokens,
        }

    def _logs_of(self, chosen: Sequence[Likely], place: int) -> list[dict[str, Any]]:
        """The entry of a token, if it has any."""
        if not chosen:
            return []
        first, *others = map(self._named, chosen)
        return [{**first, "top_logprobs": others, "place": place}]

    def _named(self, likely: Likely) -> dict[str, Any]:
        name = self._tokenizer.piece(likely.token)
        log = max(likely.log_probability, -9999.0)
        # A token that is a part of a character has bytes that its text does not tell.
        told = None if "\ufffd" in name else [*name.encode()]
        return {"token": name, "logprob": log, "bytes": told}

    def _choice(
        self,
        index: int,
        shown: Mapping[str, Any],
        logs: Sequence[dict[str, Any]] | None,
        finish: str | None,
    ) -> dict[str, Any]:
        told: dict[str, Any] | None = None
        if logs is not None and self._request.chat:
            kept = [{k: v for k, v in entry.items() if k != "place"} for entry in logs]
            told = {"content": kept, "refusal": None}
        elif logs is not None:
            top = [{t["token"]: t["logprob"] for t in entry["top_logprobs"]} for entry in logs]
            told = {
                "tokens": [entry["token"] for entry in logs],
                "token_logprobs": [entry["logprob"] for entry in logs],
                "top_logprobs": top if self._request.likeliest else None,
                "text_offset": [entry["place"] for entry in logs],
            }
        return {"index": index, **shown, "logprobs": told, "finish_reason": finish}
