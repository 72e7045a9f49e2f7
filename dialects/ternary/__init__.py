"""The `ternary` dialect: values of -1, 0 and +1, their packing and their arithmetic.

Not here: dense arithmetic (`dialects/tensor`).
"""
