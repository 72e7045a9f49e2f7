"""Power is read from the counters of the machine, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.runtime.power import RAPL, PowerMonitor


def zone(folder: Path, name: str, title: str, micro: int, most: int) -> Path:
    """A zone as the kernel shows it (Documentation/power/powercap/powercap.rst)."""
    place = folder / name
    place.mkdir()
    (place / "name").write_text(f"{title}\n")
    (place / "max_energy_range_uj").write_text(f"{most}\n")
    (place / "energy_uj").write_text(f"{micro}\n")
    return place


def test_counters_of_packages_are_added_and_begin_again(tmp_path: Path) -> None:
    first = zone(tmp_path, "intel-rapl:0", "package-0", 999_000, 1_000_000)
    second = zone(tmp_path, "intel-rapl:1", "package-1", 0, 1_000_000)
    core = zone(tmp_path, "intel-rapl:0:0", "core", 0, 1_000_000)  # part of its package
    with PowerMonitor("rapl", folder=tmp_path) as monitor:
        (first / "energy_uj").write_text("500000")
        (second / "energy_uj").write_text("250000")
        (core / "energy_uj").write_text("500000")
    assert monitor.parts == pytest.approx(
        {"package-0 (intel-rapl:0)": 0.501001, "package-1 (intel-rapl:1)": 0.25}
    )
    assert monitor.joules == pytest.approx(0.751001)
    assert monitor.watts == pytest.approx(monitor.joules / monitor.seconds)


def test_where_nothing_measures_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"cannot be measured here; RAPL: .*has no intel-rapl"):
        PowerMonitor("rapl", folder=tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 0, 1)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("many")
    with pytest.raises(BackendError, match="cannot be measured here; RAPL: invalid literal"):
        PowerMonitor("rapl", folder=tmp_path)


def test_meters_that_there_are_not() -> None:
    unknown: Any = "watts"
    with pytest.raises(OptionError, match="meter expects auto, rapl, nvml, got 'watts'"):
        PowerMonitor(unknown)


def test_this_machine_measures_or_says_why_not() -> None:
    try:
        monitor = PowerMonitor()
    except BackendError as error:
        assert "RAPL: " in str(error) and "NVML: " in str(error)
        return
    with monitor:
        sum(range(1_000_000))
    assert monitor.joules > 0 or not RAPL.exists()
