"""Float weights as trits and scales, with and without samples, and with samples on more levels too.

Not here: layers that learn such weights (`runtime.layers`).
"""
