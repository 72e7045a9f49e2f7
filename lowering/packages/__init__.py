"""One file a model: its program, artefacts of several targets, a manifest that says all of it.

`building` makes packages, `archive` turns them to bytes and back, `package` opens them, and
`provenance` says how they came about. Not here: keys and signatures (`runtime.security`), and where
packages go (`lowering.publishing`).
"""
