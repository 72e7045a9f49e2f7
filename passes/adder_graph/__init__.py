"""A constant matrix as a shared graph of additions and subtractions.

`graph` is the result, with its size, depth, widths and matrix; `search` looks for a small one, with
`bit_rows` and `factoring` (greedy sharing of pairs) and `emission` (from there to adders);
`integers` makes products with weights of several bits from products with trits, or from multiples
with the fewest adders (`constants`); `retiming` says when adders with registers behind them work.
Not here: the IR (`optimize_adder_graph`) and hardware
(lowering).
"""

from .graph import AdderGraph, InputRange
from .integers import optimize_integers
from .search import COSTS, least_depth, optimize_matrix

__all__ = [
    "COSTS",
    "AdderGraph",
    "InputRange",
    "least_depth",
    "optimize_integers",
    "optimize_matrix",
]
