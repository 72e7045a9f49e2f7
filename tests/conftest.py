"""What every test may rely on: hypothesis profiles, programs and data that may be absent."""

import gc
import gzip
import os
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from numpy.typing import NDArray

from triton_dsl.passes.adder_graph import search
from triton_dsl.runtime.native.processor import OPTIMIZE

pytest_plugins = ["filled_modules"]

# Compiled kernels of test runs stay out of the user's own cache.
os.environ.setdefault(
    "TRITON_DSL_CACHE", str(Path(__file__).resolve().parent.parent / "build" / "kernels")
)
# Machine code as it stands, where a test does not ask for `users_code`: half of a run was LLVM.
os.environ.setdefault(OPTIMIZE, "0")

WHOLE_SEARCH = search.WORK


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


class RandomDraws:
    """One seed for all draws of a run that is random, and how to draw the same again.

    Draws are the same in every run, by the profile `default`. Another profile has a random seed,
    or that of `--hypothesis-seed`, which alone means the profile `fresh`.
    """

    PARTS: Mapping[str, int] = {"default": 4, "fresh": 4}
    """Profiles that draw so many times fewer examples than a test asks for.

    Draws that are fixed find once what they find; fresh ones, those of `make test`, add to it with
    every run.
    """

    def __init__(self, config: pytest.Config) -> None:
        options = config.option
        if options.hypothesis_seed is not None and options.hypothesis_profile is None:
            options.hypothesis_profile = "fresh"
        profile = options.hypothesis_profile or "default"
        if options.hypothesis_seed is None and not settings.get_profile(profile).derandomize:
            ours = getattr(config, "workerinput", {}).get("hypothesis_seed")
            options.hypothesis_seed = ours or str(secrets.randbits(32))
        self.seed = options.hypothesis_seed
        self.part = self.PARTS.get(profile, 1)
        self.options = [f"--hypothesis-seed={self.seed}"]
        if profile != "fresh":
            self.options.insert(0, f"--hypothesis-profile={profile}")
        self.random = profile != "default"

    def command(self, tests: Sequence[str]) -> str:
        """The command that draws the same in these tests."""
        return shlex.join([sys.executable, "-m", "pytest", *self.options, *tests])

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """The workers of pytest-xdist draw with the seed of the run."""
        node.workerinput["hypothesis_seed"] = self.seed

    def pytest_report_header(self) -> str | None:
        """Before the first test, as a test may end the process."""
        return f"random draws, again by: {self.command([])}" if self.random else None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Fewer examples; tests say their own numbers, which a profile does not change."""
        tests = {getattr(i, "obj", None) for i in items} if self.part > 1 else set[Any]()
        for test in filter(is_hypothesis_test, tests):
            function: Any = getattr(test, "__func__", test)
            asked: settings = function._hypothesis_internal_use_settings
            fewer = -(-asked.max_examples // self.part)
            function._hypothesis_internal_use_settings = settings(asked, max_examples=fewer)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """After a failure, the command for the tests that failed."""
        failed = terminalreporter.stats.get("failed", [])
        drawn = [report.nodeid for report in failed if "hypothesis" in report.keywords]
        if self.random and drawn:
            terminalreporter.section("random draws")
            terminalreporter.line(f"The same again: {self.command(drawn)}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A hook of a conftest file is not asked about the folders above it; a plug-in is."""
    config.pluginmanager.register(RootIsNoTestPackage())
    config.pluginmanager.register(RandomDraws(config))


settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=100, print_blob=True
)
settings.register_profile("fresh", settings.get_profile("default"), derandomize=False)
settings.register_profile(
    "thorough",
    settings.get_profile("fresh"),
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded stays: the collector of cycles looks at it neither now nor in any test.

    IR is made of cycles that live as long as a test: looking among them more seldom, as commands
    do, takes a fifth off what compiles.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # As rarely as `ir.collection` has it, which then leaves it at that for each compilation.
        gc.set_threshold(100_000, 20, 10)
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def short_searches() -> Iterator[None]:
    """Searches for adders take a twentieth of the time that is asked for, a second a layer.

    What they find is right at any time, which is what tests look at.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "WORK", WHOLE_SEARCH / 20)
        yield


@pytest.fixture(scope="module")
def whole_searches() -> Iterator[None]:
    """Searches for adders as users have them, where tests look at how good their results are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "WORK", WHOLE_SEARCH)
        yield


@pytest.fixture
def compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Language models are compiled by this process, which has loaded the compiler already."""
    from triton_dsl.lowering.generation import block_code, native_code

    def called(command: Sequence[str], *, given: str) -> CompletedProcess[str]:
        return CompletedProcess(command, 0, block_code.answer(given), "")

    monkeypatch.setattr(native_code, "called", called)


@pytest.fixture
def few_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Language models in native code have programs for one token and for 8, and not for 32."""
    from triton_dsl.lowering.generation import native_session

    monkeypatch.setattr(native_session, "COUNTS", {8: 6, 1: 1})


@pytest.fixture(scope="module")
def users_code() -> Iterator[None]:
    """Machine code as users have it, where tests look at what LLVM makes of programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OPTIMIZE, "2")
        yield


@pytest.fixture
def run_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """The Python code of a document, run block after block in an empty folder: `run_guide(path)`.

    `path` is from the root of the project. The result holds the names that the blocks leave.
    """

    def run(path: str) -> dict[str, Any]:
        text = (Path(__file__).resolve().parents[1] / path).read_text(encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        pytest.importorskip("torch").manual_seed(0)
        scope: dict[str, Any] = {}
        for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)):
            exec(compile(block, f"{path}[{number}]", "exec"), scope)
        return scope

    return run


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


@pytest.fixture(scope="session")
def count_calls() -> Callable[[Callable[[], object]], int]:
    """How many calls of Python's functions and of C's a function makes.

    A measure of work that is the same on every machine, however busy.
    """

    def count(work: Callable[[], object]) -> int:
        calls = 0

        def note(frame: object, event: str, arg: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(before)
        return calls

    return count


@pytest.fixture(scope="session")
def transformers() -> None:
    """Skip a test without what the engine `transformers` needs."""
    for name in ("transformers", "accelerate"):
        pytest.importorskip(name)


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
