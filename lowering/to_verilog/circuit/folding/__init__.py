"""Folding: products that take several cycles a beat, for a fraction of the area.

`product` holds the numbers of a folded product, `folded_stage` its circuit, `activation` what
follows its sums, `channel_functions` finds out what that is, `control` the flags and counters of
stages. Not here: the pass that takes a program through the choice (`choose_folding` beside the
other passes).
"""

from __future__ import annotations
