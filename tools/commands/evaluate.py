"""`triton evaluate`: how well a language model foretells a text, and whether two engines agree."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import typer

from ...ir.arrays import Array
from ...ir.errors import InputError, OptionError, SourceError
from ...ir.safe_read import accessing
from ...lowering.generation import open_session, open_tokenizer
from ...runtime.generation import choices
from ...runtime.perplexity import Perplexity, foretold
from ...runtime.session import Session
from ..console import note, print_json, progress, show, table, warn
from .options.language import Evaluate

_START = 16
"""Tokens of the text that both engines continue."""


def evaluate(options: Evaluate) -> None:
    """Print perplexities, and with `--against` how far they and the logits are apart.

    Raises:
        typer.Exit: with 1 where engines differ by more than they may, or choose other tokens.
    """
    started = time.perf_counter()
    tokens, length = _tokens(options)
    window = min(options.window, len(tokens))
    stride = min(options.stride, window - 1)
    if options.against == options.engine:
        raise OptionError(f"--against {options.against} is the engine itself: name another")
    sessions, apart = list[Session](), list[Sequence[float]]()
    greedy: dict[str, int | float | None] = {}
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
            apart += [_apart(*(part.logits for part in parts))] if len(parts) == 2 else []
            said = f"Scoring: perplexity {scores[0].value:.4g}"
            bar.update(task, completed=scores[0].tokens, description=said)
        if len(sessions) == 2:
            bar.update(task, description="Continuing the text")
            greedy = _followed(sessions[0], sessions[1], tokens[:_START], options.max_tokens)
    reports: list[dict[str, Any]] = [
        {
            "engine": session.name,
            "perplexity": score.value,
            "error": score.error,
            "bits_per_byte": score.bits_per_byte(length),
            "nats": score.nats,
        }
        for session, score in zip(sessions, scores, strict=True)
    ]
    facts = reports[0] | {
        "tokens": len(tokens),
        "scored": scores[0].tokens,
        "bytes": length,
        "window": window,
        "stride": stride,
        "seconds": time.perf_counter() - started,
    }
    if apart:
        # NaN is no agreement, and stays the largest here.
        largest, mean, same = np.max(apart, 0)[0], *(np.sum(apart, 0)[1:] / scores[0].tokens)
        facts |= {
            "against": reports[1],
            "largest_difference": float(largest),
            "mean_difference": float(mean),
            "same_choice": float(same),
            "greedy": greedy,
            "agrees": greedy["margin"] is None and bool(largest <= options.tolerance),
        }
    if options.json:
        print_json(facts)
    else:
        _show(options, facts)
    if not facts.get("agrees", True):
        more = "logits differ by more than --tolerance allows, or other tokens are chosen"
        warn("triton", f"the engines do not agree: {more}")
        raise typer.Exit(1)


def _apart(ours: Array, theirs: Array) -> tuple[float, float, float]:
    """Of logits: the largest difference, the sum of each token's mean, how many choose the same."""
    difference = np.abs(ours - theirs)
    same = ours.argmax(-1) == theirs.argmax(-1)
    return difference.max(), difference.mean(-1, dtype=np.float64).sum(), same.sum()


def _followed(
    ours: Session, theirs: Session, start: Sequence[int], count: int
) -> dict[str, int | float | None]:
    """How many tokens both choose alike behind a text, and theirs between the choices that part."""
    ours.reset()
    theirs.reset()
    pairs = zip(choices(ours, start, count), choices(theirs, start, count), strict=True)
    for same, (mine, (token, logits)) in enumerate(pairs):
        if mine.token != token:
            margin = float(logits[token] - logits[mine.token])
            return {"same": same, "of": count, "margin": margin}
    return {"same": count, "of": count, "margin": None}


def _tokens(options: Evaluate) -> tuple[list[int], int]:
    """The tokens of the text, and the bytes of those that are scored."""
    tokenizer = open_tokenizer(options.model, options.tokenizer)
    with accessing(f"'{options.text}'", SourceError):
        text = options.text.read_text(encoding="utf-8")
    tokens, ends = tokenizer.measured(text)
    if len(tokens) < 2:
        raise InputError(f"'{options.text}' has {len(tokens)} tokens; at least 2 are needed")
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
