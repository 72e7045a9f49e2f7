"""`triton evaluate`: how well a language model foretells a text, and whether two engines agree."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import typer

from ...ir.errors import OptionError, SourceError
from ...lowering.generation import open_session, open_tokenizer
from ...runtime.generation import choices
from ...runtime.perplexity import Foretold, Perplexity, foretold
from ...runtime.session import Session
from ..console import note, print_json, progress, show, table, warn
from .options.language import Evaluate

_START = 16
"""Tokens of the text that both engines continue."""


@dataclass
class _Agreement:
    """How far two engines agree on the same text.

    Attributes:
        largest, total: difference of two logits, and the sum of all.
        same: tokens of which both find the same the likeliest.
        greedy: how many tokens both choose alike, one after the other, until they part.
        margin: of the engine by which the others are judged, between its choice and the other's
            where they part.
    """

    largest: float = 0.0
    total: float = 0.0
    same: int = 0
    greedy: int = 0
    margin: float | None = None

    def add(self, ours: Foretold, theirs: Foretold) -> None:
        difference = np.abs(ours.logits - theirs.logits)
        # NaN is no agreement, and `max` would lose it.
        self.largest = float(np.max([self.largest, float(difference.max())]))
        self.total += float(difference.mean(-1, dtype=np.float64).sum())
        self.same += int((ours.logits.argmax(-1) == theirs.logits.argmax(-1)).sum())

    def follow(self, ours: Session, theirs: Session, start: Sequence[int], count: int) -> None:
        """Let both continue a text, until they part or so many tokens are the same."""
        ours.reset()
        theirs.reset()
        pairs = zip(choices(ours, start, count), choices(theirs, start, count), strict=True)
        for mine, (token, logits) in pairs:
            if mine.token != token:
                self.margin = float(logits[token] - logits[mine.token])
                return
            self.greedy += 1

    def facts(self, options: Evaluate, scored: int) -> dict[str, Any]:
        same = self.greedy == options.max_tokens
        return {
            "largest_difference": self.largest,
            "mean_difference": self.total / scored,
            "same_choice": self.same / scored,
            "greedy": {"same": self.greedy, "of": options.max_tokens, "margin": self.margin},
            "agrees": same and self.largest <= options.tolerance,
        }


def evaluate(options: Evaluate) -> None:
    """Print perplexities, and with `--against` how far they and the logits are apart.

    Raises:
        typer.Exit: with 1 where engines differ by more than they may, or choose other tokens.
    """
    started = time.perf_counter()
    tokens, length = _tokens(options)
    window = min(options.window, len(tokens))
    stride = min(options.stride, window - 1)
    if options.against is not None and options.against == options.engine:
        raise OptionError(f"--against {options.against} is the engine itself: name another")
    sessions: list[Session] = []
    agreement = _Agreement()
    with progress() as bar:
        for engine in filter(None, (options.engine, options.against)):
            task = bar.add_task(f"Opening {options.model} on {engine}", total=None)
            sessions.append(open_session(options.model, engine))
            bar.remove_task(task)
        scores = [Perplexity() for _ in sessions]
        task = bar.add_task("Scoring", total=len(tokens) - 1)
        for parts in zip(*(foretold(s, tokens, window, stride) for s in sessions), strict=True):
            for score, part in zip(scores, parts, strict=True):
                score.add(part)
            if len(parts) == 2:
                agreement.add(*parts)
            said = f"Scoring: perplexity {scores[0].value:.4g}"
            bar.update(task, completed=scores[0].tokens, description=said)
        if len(sessions) == 2:
            bar.update(task, description="Continuing the text")
            agreement.follow(sessions[0], sessions[1], tokens[:_START], options.max_tokens)
    reports = [
        {
            "engine": session.name,
            "perplexity": score.value,
            "error": score.error,
            "bits_per_byte": score.bits_per_byte(length),
            "nats": score.nats,
        }
        for session, score in zip(sessions, scores, strict=True)
    ]
    facts: dict[str, Any] = {
        **reports[0],
        "tokens": len(tokens),
        "scored": scores[0].tokens,
        "bytes": length,
        "window": window,
        "stride": stride,
        "seconds": time.perf_counter() - started,
    }
    if len(reports) == 2:
        facts |= {"against": reports[1], **agreement.facts(options, scores[0].tokens)}
    if options.json:
        print_json(facts)
    else:
        _show(options, facts)
    if not facts.get("agrees", True):
        more = "logits differ by more than --tolerance allows, or other tokens are chosen"
        warn("triton", f"the engines do not agree: {more}")
        raise typer.Exit(1)


def _tokens(options: Evaluate) -> tuple[list[int], int]:
    """The tokens of the text, and the bytes of those that are scored."""
    tokenizer = open_tokenizer(options.model, options.tokenizer)
    try:
        text = options.text.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(f"'{options.text}' is no text in UTF-8: {error}") from None
    tokens, ends = tokenizer.measured(text)
    if len(tokens) < 2:
        raise OptionError(f"'{options.text}' has {len(tokens)} tokens; at least 2 are needed")
    end = len(text)
    if options.tokens is not None and options.tokens < len(tokens):
        tokens = tokens[: options.tokens]
        end = max(ends[: options.tokens])
    return tokens, max(len(text[ends[0] : end].encode()), 1)


def _show(options: Evaluate, facts: dict[str, Any]) -> None:
    rows = [
        (run["engine"], f"{run['perplexity']:.6g} ± {run['error']:.3g}", run["bits_per_byte"])
        for run in (facts, facts.get("against"))
        if run is not None
    ]
    title = f"{facts['scored']:,} tokens of {options.text}"
    show(table(title, ("engine", "perplexity", "bits a byte"), rows))
    words = f"windows of {facts['window']} tokens, {facts['stride']} apart"
    note("triton", f"{words}, {facts['seconds']:.1f} s")
    if "against" in facts:
        greedy = facts["greedy"]
        parted = "" if greedy["margin"] is None else f", then by {greedy['margin']:.3g} in a logit"
        show(
            f"logits differ by at most {facts['largest_difference']:.3g}, by "
            f"{facts['mean_difference']:.3g} on average; the likeliest token is the same for "
            f"{facts['same_choice']:.2%}\n{greedy['same']} of {greedy['of']} tokens chosen one "
            f"after the other are the same{parted}"
        )
