"""Frameworks that exchange NIR: their environments, what they make of files, and recorded runs.

`environments` makes a virtual environment for each, `run_peer` runs in one, `cases` says what is
exchanged and what each framework gave for it. Not here: the tests, which are those of
`lowering.to_nir`.
"""
