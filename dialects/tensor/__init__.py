"""The `tensor` dialect: dense arithmetic of neural networks, added to xDSL's own `tensor`.

Not here: anything that knows about ternary values (`dialects/ternary`).
"""
