"""Why one operation of a model that is read has no meaning in the IR."""


class ProblemError(Exception):
    """The reason, without place and name; front ends gather all of them, and show none alone."""


def refuse(wrong: object, reason: str) -> None:
    """Raise a `ProblemError` for that reason where something is wrong."""
    if wrong:
        raise ProblemError(reason)
