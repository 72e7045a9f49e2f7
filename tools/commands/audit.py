"""`triton audit`: whether the log of a server is whole."""

from __future__ import annotations

from ...runtime.serving.audit import read_audit
from .options.packages import Audit


def audit(options: Audit) -> None:
    """Check a log and print how many requests are in it, and its newest hash.

    Raises:
        IntegrityError: a line is not what was written; says which.
    """
    count, last = read_audit(options.file)
    print(f"{count} requests, the newest SHA-256 is {last}")
