"""The `.tri` language: grammar, syntax tree, checker, prelude and formatter.

Source text comes in; a checked and elaborated program, or a list of diagnostics, comes out. This
folder knows nothing of IR operations: the translation to IR is `lowering/from_tri.py`.
"""
