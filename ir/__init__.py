"""What a program is, before anything is done to it.

Here: the `.tri` language, the tree of errors, locations and diagnostics, the parameter store, the
context and the entry of the reference interpreter. Not here: operations (`dialects`), rewrites
(`passes`) or code for a target (`lowering`). Nothing in this folder imports another folder.
"""
