"""Generated programs against engines that are not ours, as many as there is time for.

`make fuzz` runs `python -m fuzz` with `tests` on the path. A case is a pure function of its kind
and seed. `cases` says what a case is and how it is checked, `driver` runs them in processes of
their own and counts, `oracle` bounds what rounding may change; each other file generates one kind.
Not here: tests of one part of the project, which mirror the source.
"""
