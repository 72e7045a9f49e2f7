"""What is computed beside, in another process or here, is what is computed alone."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from triton_dsl.ir import beside
from triton_dsl.ir.beside import Beside
from triton_dsl.ir.progress import threads as of_progress

forks = pytest.mark.skipif(beside.processors() < 2, reason="needs fork and two processors")
alone = pytest.mark.usefixtures("without_threads")


@pytest.fixture(params=["two", "one"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "one":
        monkeypatch.setattr(beside, "processors", lambda: 1)


@pytest.fixture
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process without the threads that other tests left behind."""
    monkeypatch.setattr(threading, "active_count", lambda: 1 + of_progress())


def refused() -> int:
    raise ValueError(f"no: {3 + 4}")


@pytest.mark.usefixtures("either")
def test_results_and_errors() -> None:
    large = list(range(300_000))
    with Beside(lambda: [x * x for x in large]) as squares, Beside(refused) as other:
        assert squares.result() == [x * x for x in large]
        with pytest.raises(ValueError, match="no: 7"):
            other.result()


@pytest.mark.usefixtures("either")
def test_what_cannot_be_pickled_is_computed_here() -> None:
    with Beside(lambda: lambda: 5) as other:
        made: Callable[[], int] = other.result()
        assert made() == 5


@forks
@alone
def test_it_is_another_process() -> None:
    with Beside(os.getpid) as other, Beside(beside.processors) as inner:
        assert other.result() != os.getpid()
        assert inner.result() == 1  # it makes no others
    with Beside(os.getpid, pays=False) as here:
        assert here.result() == os.getpid()


@forks
@alone
def test_one_that_is_killed_is_computed_here() -> None:
    with Beside(lambda: here == os.getpid() or os.kill(os.getpid(), signal.SIGKILL)) as other:
        here = os.getpid()
        assert other.result() is True


@forks
@alone
def test_one_that_nobody_asks_ends(tmp_path: Path) -> None:
    def late() -> None:
        signal.pause()
        (tmp_path / "written").touch()

    with Beside(late):
        pass
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert not any(tmp_path.iterdir())


@forks
def test_processes_with_threads_make_none() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert beside.processors() == 1
    finally:
        end.set()
        thread.join()


def _of_daemon(pipe: multiprocessing.connection.Connection) -> None:
    with Beside(os.getpid) as other:
        pipe.send(other.result() != os.getpid())


@forks
@alone
def test_daemons_have_it_too() -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_of_daemon, args=(theirs,), daemon=True
    )
    process.start()
    assert ours.poll(20) and ours.recv() is True
    process.join()
