"""Float weights as trits and scales, with and without samples.

Not here: layers that learn such weights (`runtime.layers`).
"""
