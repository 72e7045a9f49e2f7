"""Rewrites: IR in, IR out, one pass a file.

A file is named as its pass is on the command line, with underscores. A pass keeps what the program
computes, or says in its docstring what it changes. Not here: patterns that belong to one operation
(`dialects`), and anything that leaves the IR for another form (`lowering`).
"""
