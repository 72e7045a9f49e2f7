"""Five owners of data train one network as real processes of Flower, masked; one of them dies."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.runtime.layers import TernaryLinear
from triton_dsl.runtime.pruning import prune
from triton_dsl.runtime.training.federated import Rounds, fill, owner_app, shared_arrays

FLOWER = os.environ.get("TRITON_FLOWER")
"""The folder `bin` of an environment with Flower: its versions of libraries are its own."""

PROJECT = Path(__file__).parent / "federated"
WAIT = float(os.environ.get("TRITON_FEDERATED_TIMEOUT", "60"))


def test_the_mean_of_latents_and_masks_that_stay() -> None:
    torch.manual_seed(0)
    nets = [nn.Sequential(TernaryLinear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)) for _ in "ab"]
    for net in nets:
        prune(net, pattern="2:4")
    mine, other = (shared_arrays(net) for net in nets)
    masks = [v.clone() for k, v in nets[0].state_dict().items() if k.endswith(".mask")]
    fill(nets[0], [(a + b) / 2 for a, b in zip(mine, other, strict=True)])
    for got, a, b in zip(shared_arrays(nets[0]), mine, other, strict=True):
        np.testing.assert_allclose(got, (a + b) / 2)
    kept = [v for k, v in nets[0].state_dict().items() if k.endswith(".mask")]
    assert masks and all(torch.equal(a, b) for a, b in zip(masks, kept, strict=True))
    with pytest.raises(OptionError, match="of another module"):
        fill(nets[0], mine[1:])


@pytest.mark.parametrize(("count", "owners", "least"), [(0, 5, 3), (1, 5, 2), (1, 3, 4)])
def test_rounds_that_would_tell_an_owner_s_part(count: int, owners: int, least: int) -> None:
    with pytest.raises(OptionError, match="at least 3 of the owners"):
        Rounds(count, owners, least)


def test_without_flower() -> None:
    if find_spec("flwr") is not None:
        pytest.skip("it is here")
    with pytest.raises(BackendError, match=r"Flower \(flwr\) is missing.*federated"):
        owner_app(lambda number, of: pytest.fail("it is not called"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


@contextlib.contextmanager
def running(command: list[object], log: Path, env: dict[str, str]) -> Generator[int]:
    """A process with those that it starts, and its number; all of them end with the block."""
    with log.open("w") as file:
        process = subprocess.Popen(
            [*map(str, command)], stdout=file, stderr=file, env=env, start_new_session=True
        )
        try:
            yield process.pid
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.slow
@pytest.mark.skipif(FLOWER is None, reason="TRITON_FLOWER names no environment with Flower")
def test_owners_that_train_together_while_one_dies(tmp_path: Path) -> None:
    programs, link = Path(FLOWER or ""), f"127.0.0.1:{free_port()}"
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{link}"\ninsecure = true\n'
    )
    # Flower gives up a process that was not heard of for 30 s, which a busy machine may take to
    # start one.
    (tmp_path / "sitecustomize.py").write_text(
        "import flwr.common.constant as constant\nconstant.HEARTBEAT_DEFAULT_INTERVAL = 120\n"
    )
    env = {
        **os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path), "HOME": str(home), "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1", "TRITON_FEDERATED": str(tmp_path),
    }  # fmt: skip
    accuracies, trained, end = tmp_path / "accuracies", tmp_path / "trained-2", 60 * WAIT

    def wait_for(path: Path, what: str, found: int) -> None:
        limit = time.monotonic() + end
        while not path.exists() or path.read_text().count(what) < found:
            logs = "".join(log.read_text()[-2000:] for log in tmp_path.glob("*.log"))
            assert time.monotonic() < limit, logs
            time.sleep(0.2)

    with contextlib.ExitStack() as stack:

        def start(name: str, *command: object) -> int:
            return stack.enter_context(running([*command], tmp_path / f"{name}.log", env))

        start("link", programs / "flower-superlink", "--insecure", "--port", link.split(":")[1],
              "--disable-runtime-dependency-installation")  # fmt: skip
        wait_for(tmp_path / "link.log", "startup complete", 1)
        owners = [
            start(
                f"owner-{n}", programs / "flower-supernode", "--insecure", "--superlink", link,
                "--port", free_port(), "--node-config", f"partition-id={n} num-partitions=5",
            )
            for n in range(5)
        ]  # fmt: skip
        subprocess.run(
            [programs / "flwr", "run", PROJECT, "here"], env=env, check=True, timeout=WAIT * 5
        )
        wait_for(trained, "x", 2)
        os.killpg(owners[2], signal.SIGKILL)  # it trains: the others must take its masks off
        wait_for(accuracies, "\n", 2)
    assert [len((tmp_path / f"trained-{n}").read_text()) for n in range(5)] == [2] * 5
    together = float(accuracies.read_text().split()[-1])
    code = (
        "from owners.apps import *; net = network(); "
        "trainer(net, ROUNDS * EPOCHS).fit(data()[0]); print(accuracy(net))"
    )
    alone = subprocess.run(
        [programs / "python", "-c", code], env={**env, "PYTHONPATH": str(PROJECT)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    central = float(alone.stdout)
    print(f"federated {together:.4f}, central {central:.4f}", file=sys.stderr)
    assert central > 0.95 and together > central - 0.01
