"""The operations and types of the IR, one dialect a file or folder.

Each dialect has its definitions, its verification, its canonicalisation patterns and, in a file
beside them, what its operations compute. Rewrites that serve one purpose of the compiler are
`passes`; translations to another dialect or to a target are `lowering`.
"""
