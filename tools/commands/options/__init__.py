"""The options of each command: what `triton COMMAND --help` says, without what runs it.

A class is a command of its name, in small letters; its docstring is the help. Not here: the
commands, which are functions of one such object in the file of their name.
"""

import re

from .conversions import Convert, Energy, Quantize
from .language import Evaluate, Generate
from .packages import Audit, Boot, Inspect, Package, Publish, VerifyPackage
from .programs import Check, Compile, Devices, Doctor, Explain, Fmt, Info
from .runs import Explore, Profile, Run, Serve, Verify

COMMANDS = (
    *(Compile, Convert, Quantize, Check, Explain, Fmt, Run, Generate, Evaluate, Profile, Energy),
    *(Verify, Explore, Serve, Package, Inspect, VerifyPackage, Publish, Boot, Audit),
    *(Info, Devices, Doctor),
)
"""In the order of the help."""


def command_name(options: type) -> str:
    """The command of a class of options: `verify-package` of `VerifyPackage`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", options.__name__).lower()
