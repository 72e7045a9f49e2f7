"""Images of ten shapes that are drawn from random numbers: a set that need not be fetched.

A shape is a curve r(φ) around a point, filled or as an outline, of random size, place, angle and
stretch, on a background that shades off, behind a stroke and noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIZE = 28


def _polygon(corners: int) -> Callable[[Floats], Floats]:
    """A regular polygon whose corners have the radius 1."""
    half = np.pi / corners
    return lambda angle: np.cos(half) / np.cos((angle % (2 * half)) - half)


def _star(points: int, depth: float) -> Callable[[Floats], Floats]:
    """A star with `points` tips, its dents `depth` deep."""
    return lambda angle: 1 - depth * np.abs(((angle * points / np.pi) % 2) - 1)


SHAPES: tuple[Callable[[Floats], Floats], ...] = (
    lambda angle: np.ones_like(angle),
    _polygon(3),
    _polygon(4),
    _polygon(6),
    _star(3, 0.6),
    _star(4, 0.6),
    _star(5, 0.55),
    lambda angle: 0.65 + 0.35 * np.cos(2 * angle),
    lambda angle: 0.7 + 0.3 * np.cos(3 * angle),
    lambda angle: np.where(np.abs(angle) < 0.7, 0.15, 1.0),
)
"""By class the curve r(φ), φ from -π to π."""


def shapes(count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images [count, 1, 28, 28] from 0 to 1, and their classes; the same seed gives the same."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(SHAPES), count)
    images = np.stack([_drawn(SHAPES[label], rng) for label in labels])
    return images[:, None].astype(np.float32), labels.astype(np.int64)


def _drawn(curve: Callable[[Floats], Floats], rng: np.random.Generator) -> Floats:
    """One image [28, 28]."""
    grid = np.arange(SIZE) - SIZE / 2 + 0.5
    y, x = np.meshgrid(grid, grid, indexing="ij")
    size, angle, stretch = rng.uniform(6, 11), rng.uniform(-np.pi, np.pi), rng.uniform(0.8, 1.25)
    u, v = x - rng.uniform(-3, 3), y - rng.uniform(-3, 3)
    u, v = u * np.cos(angle) - v * np.sin(angle), u * np.sin(angle) + v * np.cos(angle)
    u, v = u * stretch, v / stretch
    # How many pixels a place lies inside the curve, as good as.
    inside = size * curve(np.arctan2(v, u)) - np.hypot(u, v)
    ink = np.clip(inside + 0.5, 0, 1)
    if rng.random() < 0.3:
        ink = ink * np.clip(rng.uniform(2, 3) - inside, 0, 1)
    tilt, far = rng.uniform(-np.pi, np.pi), rng.uniform(-9, 9)
    stroke = np.clip(1.2 - np.abs(x * np.cos(tilt) + y * np.sin(tilt) - far), 0, 1)
    shade = rng.uniform(0, 0.3) + rng.normal(0, 0.008, 2) @ np.stack([x, y]).reshape(2, -1)
    image = shade.reshape(SIZE, SIZE) + rng.uniform(0.35, 0.7) * ink
    image = image + rng.uniform(-0.3, 0.3) * stroke + rng.normal(0, 0.08, image.shape)
    return np.clip(image, 0, 1)
