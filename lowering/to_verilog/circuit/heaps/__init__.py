"""Sums of many numbers as rows of look-up tables before carry chains: bit heaps with shared sums.

A matrix product is one heap of weighted bits for each output. `sharing` finds sums that outputs
have in common, `search` the cheapest ways to make a heap one number, `summing` the rows of a way;
`triples` does both for single bits, and `plan` puts all of it together. `rows` is what a row can
do; `emission` writes a plan into a circuit. On fabrics whose carry chains take two inputs a bit,
products are shared adders or counts instead (`circuit.products`).
"""
