"""Pictures of machines show the cores, spikes and steps that a placement and a run have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sanafe_peer import cases

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.placement import place
from triton_dsl.lowering.placement.drive import drive_of
from triton_dsl.lowering.placement.run import Drive
from triton_dsl.tools.pictures.figure import picture_bytes
from triton_dsl.tools.pictures.machine import core_map, timeline, traffic

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def drive() -> Drive:
    case = cases.layers()
    return drive_of(case.module, case.inputs)


def colours(figure: Any, gid: str) -> Any:
    (shown,) = [part for part in figure.axes[0].collections if part.get_gid() == gid]
    return shown.get_array()


@pytest.mark.parametrize("device", ["spinnaker1-4chips", "loihi2-kapohopoint"])
def test_cores_stand_where_they_are_with_their_load(drive: Drive, device: str) -> None:
    limits = {"neurons_per_core": 20, "cores_per_chip": 12}
    placement = place(drive.workload, device, constraints=limits)
    figure = core_map(placement)
    seen = colours(figure, "core.map").reshape(-1)
    loads = placement.core_loads["neurons"]
    assert sorted(x for x in seen.compressed() if x) == sorted(loads)
    assert placement.chips > 1 and "chips" in figure.axes[0].get_title(loc="left")
    own = core_map(placement, np.arange(placement.cores) + 0.5)
    assert colours(own, "core.map").max() == placement.cores - 0.5
    for suffix in (".svg", ".png"):
        again = picture_bytes(core_map(placement), suffix)
        assert again == picture_bytes(core_map(placement), suffix)


def test_traffic_is_the_spikes_between_cores(drive: Drive) -> None:
    placement = place(drive.workload, "loihi2", constraints={"neurons_per_core": 20})
    image = colours(traffic(placement), "core.traffic").reshape(placement.cores, -1)
    assert image.sum() == pytest.approx(float(placement.spikes.sum()))
    first = int(placement.source[0]), int(placement.target[0])
    assert image[first] == pytest.approx(float(placement.spikes[0]))


def test_a_timeline_has_the_spikes_of_each_step(drive: Drive) -> None:
    figure = timeline(drive)
    lines = [axis.get_lines()[0] for axis in figure.axes]
    assert [axis.get_title(loc="left") for axis in figure.axes] == list(drive.spikes)
    for line, counts in zip(lines, drive.spikes.values(), strict=True):
        shown: Any = line.get_ydata()
        np.testing.assert_allclose(shown[:-1], counts.sum(1) / drive.samples)
    silent = {name: np.zeros_like(x) for name, x in drive.spikes.items()}
    quiet = Drive(drive.workload, silent, drive.active, 1, drive.steps, None, 0.0)
    with pytest.raises(OptionError, match="no spikes"):
        timeline(quiet)
