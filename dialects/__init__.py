"""The operations and types of the IR, one dialect a file or folder.

Each dialect has its definitions, its verification and, in a file beside them, what its operations
compute. `traits` says what is true of all ops of a class, `canonicalization_patterns` which
identities hold for them. Rewrites that serve one purpose of the compiler are `passes`; translations
to another dialect or to a target are `lowering`.
"""
