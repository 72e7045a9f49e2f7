"""Language models that are told tokens and remember them: sessions on every engine.

`session` says what a session is and opens one, `engine_session` has those on targets of the
compiler, `native_session` native code with weights and caches in place. Not here: the choice of
tokens and text (`runtime.generation`), reading checkpoints (`from_checkpoint`).
"""

from .session import Session, open_session

__all__ = ["Session", "open_session"]
