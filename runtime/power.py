"""`PowerMonitor`: joules that this machine takes while something runs, by its own meters.

RAPL counts those of Intel's and AMD's processors (Linux, `/sys/class/powercap`), NVML those of
NVIDIA's GPUs. Not here: joules that are computed (`lowering.placement.energy`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Literal, Self

from ..ir.errors import BackendError, OptionError

Meter = Callable[[], Mapping[str, float]]
"""Reads what parts of the machine took so far, J by name."""

RAPL = Path("/sys/class/powercap")
_NVML = "libnvidia-ml.so.1"


class PowerMonitor:
    """Measures the whole machine, whatever else runs on it.

        with PowerMonitor() as monitor:
            model(x)
        print(monitor.joules, monitor.watts)

    Args:
        meter: `rapl`, `nvml`, or `auto` for all that there are.
        folder: where Linux shows RAPL.

    Attributes:
        parts: J by part of the machine, of the last block.
        seconds: of the last block.

    Raises:
        BackendError: there is none, with what each lacks.
        OptionError: an unknown meter.
    """

    def __init__(
        self, meter: Literal["auto", "rapl", "nvml"] = "auto", *, folder: Path = RAPL
    ) -> None:
        makers: dict[str, Callable[[], Meter]] = {"rapl": lambda: _rapl(folder), "nvml": _nvml}
        if meter not in ("auto", *makers):
            raise OptionError(f"meter expects auto, {', '.join(makers)}, got '{meter}'")
        self._meters: list[Meter] = []
        reasons: list[str] = []
        for name, make in makers.items():
            if meter in ("auto", name):
                try:
                    self._meters.append(make())
                except (OSError, ValueError, BackendError) as error:
                    reasons.append(f"{name.upper()}: {error}")
        if not self._meters:
            raise BackendError(f"power cannot be measured here; {'; '.join(reasons)}")
        self.parts: dict[str, float] = {}
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._before, self._begun = self._read(), perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = perf_counter() - self._begun
        after = self._read()
        self.parts = {name: after[name] - joules for name, joules in self._before.items()}

    @property
    def joules(self) -> float:
        """Of all parts."""
        return sum(self.parts.values())

    @property
    def watts(self) -> float:
        """On average."""
        return self.joules / self.seconds if self.seconds else 0.0

    def _read(self) -> dict[str, float]:
        return {name: joules for meter in self._meters for name, joules in meter().items()}


def _rapl(folder: Path) -> Meter:
    """The packages, each with its range, after which it begins at 0 again."""
    places = sorted(folder.glob("intel-rapl:[0-9]*"))
    zones = [place for place in places if place.name.count(":") == 1]
    if not zones:
        raise BackendError(f"'{folder}' has no intel-rapl:N")
    ranges = [int((zone / "max_energy_range_uj").read_text("utf-8")) for zone in zones]
    names = [f"{(zone / 'name').read_text('utf-8').strip()} ({zone.name})" for zone in zones]
    last = [int((zone / "energy_uj").read_text("utf-8")) for zone in zones]
    total = [0] * len(zones)

    def read() -> Mapping[str, float]:
        for index, zone in enumerate(zones):
            now = int((zone / "energy_uj").read_text("utf-8"))
            total[index] += (now - last[index]) % (ranges[index] + 1)
            last[index] = now
        return {name: joules * 1e-6 for name, joules in zip(names, total, strict=True)}

    return read


def _nvml() -> Meter:
    """The GPUs, from Volta on, in mJ since the driver was loaded."""
    library = ctypes.CDLL(_NVML)

    def call(name: str, *arguments: object) -> None:
        status = library[name](*arguments)
        if status:
            raise BackendError(f"{name} ends with {status}")

    call("nvmlInit_v2")
    count = ctypes.c_uint()
    call("nvmlDeviceGetCount_v2", ctypes.byref(count))
    handles = [ctypes.c_void_p() for _ in range(count.value)]
    for index, handle in enumerate(handles):
        call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))

    def read() -> Mapping[str, float]:
        joules: dict[str, float] = {}
        for index, handle in enumerate(handles):
            taken = ctypes.c_ulonglong()
            call("nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.byref(taken))
            joules[f"GPU {index}"] = taken.value * 1e-3
        return joules

    read()
    return read
