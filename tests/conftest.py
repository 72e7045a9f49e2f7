"""What every test may rely on: hypothesis profiles, programs and data that may be absent."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray

# Compiled kernels of test runs stay out of the user's own cache.
os.environ.setdefault(
    "TRITON_DSL_CACHE", str(Path(__file__).resolve().parent.parent / "build" / "kernels")
)


def in_ci() -> bool:
    """Whether a continuous integration service runs the tests."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


class RootIsNoTestPackage:
    """Collects the root as a plain folder, though it is the package `triton_dsl`.

    Otherwise pytest imports it a second time, under the name of the folder that it was cloned
    into, and hides the library of that name: Triton's in a folder `triton`.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(
        self, path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        if path != parent.config.rootpath:
            return None
        directory: pytest.Dir = pytest.Dir.from_parent(parent, path=path)
        return directory


def pytest_configure(config: pytest.Config) -> None:
    """A hook of a conftest file is not asked about the folders above it; a plug-in is."""
    config.pluginmanager.register(RootIsNoTestPackage())


settings.register_profile("default", deadline=None, derandomize=in_ci(), max_examples=100)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def require_tool() -> Callable[[str, str], str]:
    """The path of an external program, or the end of the test: `require_tool(name, hint)`.

    A missing program skips the test on a user's machine, with `hint` saying how to install it. With
    the environment variable `CI` set it fails the test, so that nothing goes unchecked unnoticed.
    """

    def require(name: str, hint: str) -> str:
        path = shutil.which(name)
        if path is not None:
            return path
        message = f"'{name}' is not installed: {hint}"
        if in_ci():
            pytest.fail(message, pytrace=False)
        pytest.skip(message)

    return require


class SharedData:
    """Data and models beside the repository; asking for what is absent skips the test."""

    folder = Path(__file__).resolve().parents[2] / "shared" / "data"

    def path(self, *parts: str) -> Path:
        """A file."""
        path = self.folder.joinpath(*parts)
        if not path.exists():
            pytest.skip(f"'{path}' is absent: the shared data are not on this machine")
        return path

    def digits(self, name: str) -> NDArray[Any]:
        """The images of MNIST, `train` or `t10k`: float32 [N, 1, 28, 28] in [0, 1]."""
        data = gzip.decompress(self.path("mnist", f"{name}-images-idx3-ubyte.gz").read_bytes())
        return (np.frombuffer(data, np.uint8)[16:].reshape(-1, 1, 28, 28) / 255).astype(np.float32)

    def labels(self, name: str) -> NDArray[Any]:
        """Their classes, uint8 [N]."""
        data = gzip.decompress(self.path("mnist", f"{name}-labels-idx1-ubyte.gz").read_bytes())
        return np.frombuffer(data, np.uint8)[8:]

    def network(self, name: str) -> Any:
        """The float network for them, `mlp` or `cnn`, with its trained weights; needs PyTorch."""
        import torch
        from torch import nn

        from triton_dsl.ir.store import read_arrays

        layers: dict[str, list[nn.Module]] = {
            "mlp": [nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)],
            "cnn": [
                *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
                *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
                *(nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10)),
            ],
        }
        net = nn.Sequential(*layers[name])
        weights = read_arrays(self.path("models", "ann", f"mnist_{name}.safetensors"))
        net.load_state_dict({key: torch.tensor(array) for key, array in weights.items()})
        return net.eval()


@pytest.fixture(scope="session")
def shared_data() -> SharedData:
    """A fixture because tests cannot import this file."""
    return SharedData()
