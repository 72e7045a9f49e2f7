"""How a float network becomes integer: samples, ranges, grids and the integers they expose.

Not here: integer products (`requantize`), networks whose floats have few values (`streamline`).
"""
