"""The driver that a folder has for the computer beside a circuit, from the package's own file."""

from __future__ import annotations

from importlib.resources import files


def driver_files() -> dict[str, str]:
    """The driver by its name in the folder."""
    text = files(f"{__package__}.host").joinpath("circuit_driver.py").read_text(encoding="utf-8")
    return {"host/circuit_driver.py": text}
