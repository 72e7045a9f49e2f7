"""`triton audit`: whether the log of a server is whole."""

from __future__ import annotations

from ...runtime.serving.audit import read_audit
from ..console import print_json
from .options.packages import Audit


def audit(options: Audit) -> None:
    """Check a log and print how many requests are in it, and its newest hash.

    Raises:
        IntegrityError: a line is not what was written; says which.
    """
    count, last = read_audit(options.file)
    if options.json:
        print_json({"requests": count, "sha256": last})
    else:
        print(f"{count} requests, the newest SHA-256 is {last}")
