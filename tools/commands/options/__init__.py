"""The options of each command: what `triton COMMAND --help` says, without what runs it.

A class is a command of its name, in small letters; its docstring is the help. Not here: the
commands, which are functions of one such object in the file of their name.
"""

from pkgutil import resolve_name

COMMANDS = {
    "compile": "programs:Compile",
    "convert": "conversions:Convert",
    "quantize": "conversions:Quantize",
    "check": "programs:Check",
    "explain": "programs:Explain",
    "fmt": "programs:Fmt",
    "run": "runs:Run",
    "generate": "language:Generate",
    "evaluate": "language:Evaluate",
    "profile": "runs:Profile",
    "energy": "conversions:Energy",
    "verify": "runs:Verify",
    "attack": "runs:Attack",
    "explore": "runs:Explore",
    "serve": "runs:Serve",
    "package": "packages:Package",
    "inspect": "packages:Inspect",
    "verify-package": "packages:VerifyPackage",
    "publish": "packages:Publish",
    "boot": "packages:Boot",
    "audit": "packages:Audit",
    "info": "programs:Info",
    "devices": "programs:Devices",
    "doctor": "programs:Doctor",
}
"""The class of each command, in the order of the help; only that of the command that runs loads."""


def options_of(command: str) -> type:
    """The class of the options of a command."""
    return resolve_name(f"{__name__}.{COMMANDS[command]}")
