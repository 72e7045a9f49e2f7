"""Sharing of work among threads."""

import os
import subprocess
import sys
import threading

import pytest

from triton_dsl.runtime.native.threads import processors, share, split


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("parts", [1, 2, 5, 9])
def test_ranges_cover_everything_once(count: int, parts: int) -> None:
    ranges = split(count, parts)
    assert [i for first, end in ranges for i in range(first, end)] == list(range(count))
    sizes = [end - first for first, end in ranges]
    assert not sizes or (min(sizes) >= 1 and max(sizes) - min(sizes) <= 1)


def test_every_range_is_done() -> None:
    done: list[tuple[int, int]] = []
    share(lambda first, end: done.append((first, end)), split(10, 3))
    assert sorted(done) == split(10, 3)
    share(lambda first, end: done.append((first, end)), [])
    assert len(done) == 3


def test_an_error_in_a_thread_is_raised() -> None:
    def work(first: int, end: int) -> None:
        if first:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share(work, split(4, 2))


def test_work_may_be_shared_inside_shared_work() -> None:
    done: list[int] = []

    def outer(first: int, end: int) -> None:
        share(lambda a, b: done.extend(range(a, b)), split(end - first, 4))

    for _ in range(50):
        share(outer, split(40, 4))
    assert sorted(done) == sorted(50 * 4 * list(range(10)))


def test_several_threads_may_share_work() -> None:
    sums: list[int] = []

    def caller() -> None:
        done: list[int] = []
        for _ in range(50):
            share(lambda first, end: done.extend(range(first, end)), split(9, 3))
        sums.append(sum(done))

    callers = [threading.Thread(target=caller) for _ in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert sums == [50 * sum(range(9))] * 8


def run(program: str) -> str:
    """What a program in a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX threads")
def test_without_pytorch_the_processors_count() -> None:
    pytest.importorskip("llvmlite")
    assert 1 <= processors() <= (os.cpu_count() or 1)
    printed = run(
        "import sys\n"
        "from triton_dsl.runtime.native import threads\n"
        "print(threads.default_threads() == threads.processors())\n"
        "threads.share(print, [(0, 1), (1, 2)], 1)\n"
        "print('torch' in sys.modules)\n"
    )
    assert printed == "True\n0 1\n1 2\nFalse\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the runtime is looked for on Linux")
def test_pytorch_brings_threads_of_its_own() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("llvmlite")
    printed = run(
        "import ctypes, threading\n"
        "import torch\n"
        "from triton_dsl.runtime.native import threads\n"
        "torch.set_num_threads(3)\n"
        "part = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4)\n"
        "seen = []\n"
        "def work(argument, phase, first, end, member):\n"
        "    seen.append((phase, first, end, member, threading.get_ident()))\n"
        "threads.with_pytorch(part(work), None, 3, (12, 6))\n"
        "phases = [phase for phase, *_ in seen]\n"
        "print(threads.default_threads(), phases == sorted(phases))\n"
        "print(len({(phase, first) for phase, first, *_ in seen}), len(seen))\n"
        "print(threads._openmp() is not None)\n"
    )
    assert printed == "3 True\n18 18\nTrue\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other systems do not fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    printed = run(
        "import os\n"
        "from triton_dsl.runtime.native.threads import share, split\n"
        "done = []\n"
        "def work(first, end): done.extend(range(first, end))\n"
        "share(work, split(6, 3))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    done.clear()\n"
        "    share(work, split(6, 3))\n"
        "    os._exit(0 if sorted(done) == list(range(6)) else 3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert printed == "0\n"
