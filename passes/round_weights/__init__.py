"""Float weights on few levels that make up for each other's errors on samples.

Not here: rules that round each weight by itself (`ternarize`, `requantize.integer_weights`).
"""
