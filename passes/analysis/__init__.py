"""What passes ask of a program: literals, layers, bounds of values, forms over time.

No file here rewrites a program by itself. Not here: what values a program takes on samples
(`calibration`), what serves one pass alone (in its folder).
"""
