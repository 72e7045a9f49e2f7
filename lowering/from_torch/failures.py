"""What an export that failed is told as: the reason, the module's own line, and what to do.

Not here: what is refused once there is a graph (`hopeless`, `torch_operators`).
"""

from __future__ import annotations

import re
import sys
import traceback

from torch._subclasses import fake_tensor as fakes

from ...ir.errors import first_line

DATA_DEPENDENT_ERROR = "data-dependent"
"""In what PyTorch says of sizes and branches that depend on values."""


def explained(name: str, error: Exception) -> str:
    """Why a module cannot be exported, where, and what to do."""
    reason, place = _meant(error), _own_place(error)
    if reason is not None:
        return f"{name} cannot be exported: {reason}{place}"
    text = f"{name} cannot be exported: {first_line(error)}{place}"
    if any(word in str(error) for word in ("Constraint", "dynamic_shapes", "specialized", "Dim(")):
        return (
            f"{text}\nThe module fixes a size that was to be free; name those that are, as "
            "dynamic={'x': {0: 'N'}}, or none with dynamic={}"
        )
    return f"{text}\nControl flow must not depend on values, and no module may be changed"


def _meant(error: Exception) -> str | None:
    """What PyTorch means where it names an operator alone, or asks its users for a report."""
    if isinstance(error, fakes.DataDependentOutputException):
        return f"the number or truth value that {error.func} gives is {DATA_DEPENDENT_ERROR}"
    if isinstance(error, fakes.DynamicOutputShapeException):
        return f"the size of what {error.func} gives is {DATA_DEPENDENT_ERROR}"
    if isinstance(error, fakes.UnsupportedOperatorException):
        return f"PyTorch cannot tell the sizes that {error.func} gives"
    if "torch.classes.quantized" in str(error):
        return (
            "its weights are packed for kernels of PyTorch; give the model before 'convert', with "
            "FakeQuantize modules, or one of convert_pt2e"
        )
    found = re.match(r"Found <class '(.+)'> in output, which is not a known type", str(error))
    return found and (
        f"it gives a {found[1]}, which PyTorch does not take apart; return tensors, a tuple or a "
        "dictionary, or name its class to torch.export.register_dataclass before"
    )


def _own_place(error: BaseException) -> str:
    """The innermost line of the module's own code that an error came through, to be appended."""
    known = {"torch", __name__.partition(".")[0], *sys.stdlib_module_names}
    places = [
        f" (at {frame.f_code.co_filename}:{line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "torch").partition(".")[0] not in known
    ]
    inner = _own_place(error.__cause__) if error.__cause__ else ""
    return inner or (places[-1] if places else "")
