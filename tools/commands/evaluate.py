"""`triton evaluate`: how well a language model foretells a text, and whether two engines agree."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
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


@dataclass
class _Run:
    """An engine, and what it foretold."""

    session: Session
    score: Perplexity = field(default_factory=Perplexity)

    def facts(self, count: int) -> dict[str, Any]:
        return {
            "engine": self.session.name,
            "perplexity": self.score.value,
            "error": self.score.error,
            "bits_per_byte": self.score.bits_per_byte(count),
            "nats": self.score.nats,
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
    runs: list[_Run] = []
    agreement = _Agreement()
    with ExitStack() as stack:
        bar = stack.enter_context(progress())
        for engine in filter(None, (options.engine, options.against)):
            task = bar.add_task(f"Opening {options.model} on {engine}", total=None)
            runs.append(_Run(open_session(options.model, engine)))
            bar.remove_task(task)
        task = bar.add_task("Scoring", total=len(tokens) - 1)
        for parts in zip(*(_scored(run, tokens, window, stride) for run in runs), strict=True):
            if len(parts) == 2:
                agreement.add(*parts)
            done = runs[0].score
            said = f"Scoring: perplexity {done.value:.4g}"
            bar.update(task, completed=done.tokens, description=said)
        if options.against is not None:
            bar.update(task, description="Continuing the text")
            sessions = [run.session for run in runs]
            agreement.follow(sessions[0], sessions[1], tokens[:_START], options.max_tokens)
    facts: dict[str, Any] = {
        **runs[0].facts(length),
        "tokens": len(tokens),
        "scored": runs[0].score.tokens,
        "bytes": length,
        "window": window,
        "stride": stride,
        "seconds": time.perf_counter() - started,
    }
    if options.against is not None:
        facts |= {"against": runs[1].facts(length), **_agreed(agreement, options, facts)}
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


def _scored(run: _Run, tokens: Sequence[int], window: int, stride: int) -> Iterator[Foretold]:
    for part in foretold(run.session, tokens, window, stride):
        run.score.add(part)
        yield part


def _agreed(agreement: _Agreement, options: Evaluate, facts: dict[str, Any]) -> dict[str, Any]:
    same = agreement.greedy == options.max_tokens
    return {
        "largest_difference": agreement.largest,
        "mean_difference": agreement.total / facts["scored"],
        "same_choice": agreement.same / facts["scored"],
        "greedy": {
            "same": agreement.greedy,
            "of": options.max_tokens,
            "margin": agreement.margin,
        },
        "agrees": same and agreement.largest <= options.tolerance,
    }


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
