"""Native threads without PyTorch."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("llvmlite")
if os.name != "posix":
    pytest.skip("needs POSIX threads", allow_module_level=True)

PREAMBLE = """
import ctypes, os, sys
from triton_dsl.runtime.native.abi.parallel import BARRIER, TEAM_SIZE, THREAD_NUMBER
from triton_dsl.runtime.native.processor import llvm_binding
from triton_dsl.runtime.native.native_team import start_team
start = start_team(4)
of = llvm_binding().address_of_symbol
number = ctypes.CFUNCTYPE(ctypes.c_int)(of(THREAD_NUMBER))
size = ctypes.CFUNCTYPE(ctypes.c_int)(of(TEAM_SIZE))
barrier = ctypes.CFUNCTYPE(None)(of(BARRIER))
task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""


def run(program: str) -> str:
    """What a program in a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_member_does_the_task_once() -> None:
    printed = run(
        "for count in (1, 2, 3, 4, 9, 2):\n"
        "    seen = []\n"
        "    start(task(lambda a: seen.append((number(), size(), a))), 64, count, 0)\n"
        "    print(sorted(seen))\n"
        "print(number(), size())\n"
    )
    expected = [[(i, n, 64) for i in range(n)] for n in (1, 2, 3, 4, 4, 2)]
    assert printed == "".join(f"{line}\n" for line in expected) + "0 1\n"


def test_nobody_passes_a_barrier_before_all_have_come() -> None:
    printed = run(
        "seen = []\n"
        "def work(_):\n"
        "    for i in range(30):\n"
        "        seen.append(i)\n"
        "        barrier()\n"
        "for _ in range(20):\n"
        "    seen.clear()\n"
        "    start(task(work), None, 3, 0)\n"
        "    assert seen == sorted(seen) and len(seen) == 90, seen\n"
        "print('ok')\n"
    )
    assert printed == "ok\n"


def test_members_that_sleep_are_woken() -> None:
    printed = run(
        "import time\n"
        "seen = []\n"
        "for pause in (0, 0.0001, 0.0003, 0.001, 0.01, 0.1) * 5:\n"
        "    start(task(lambda _: seen.append(number())), None, 4, 0)\n"
        "    time.sleep(pause)\n"
        "print(len(seen), sorted(set(seen)))\n"
    )
    assert printed == "120 [0, 1, 2, 3]\n"


def test_a_call_during_a_call_is_done_alone() -> None:
    printed = run(
        "seen = []\n"
        "inner = task(lambda _: seen.append((number(), size())))\n"
        "def work(_):\n"
        "    start(inner, None, 4, 0)\n"
        "    barrier()\n"
        "    seen.append((number(), size()))\n"
        "start(task(work), None, 3, 0)\n"
        "print(seen[:3], sorted(seen[3:]))\n"
    )
    assert printed == "[(0, 1), (0, 1), (0, 1)] [(0, 3), (1, 3), (2, 3)]\n"


def test_several_threads_may_call() -> None:
    printed = run(
        "import threading\n"
        "totals = []\n"
        "def caller():\n"
        "    done = []\n"
        "    def work(_):\n"
        "        n, s = number(), size()\n"
        "        done.extend(range(12 * n // s, 12 * (n + 1) // s))\n"
        "    for _ in range(100): start(task(work), None, 3, 0)\n"
        "    totals.append(sum(done))\n"
        "threads = [threading.Thread(target=caller) for _ in range(6)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "print(totals == [6600] * 6)\n"
    )
    assert printed == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other systems do not fork")
def test_a_forked_process_has_members_of_its_own() -> None:
    printed = run(
        "seen = []\n"
        "work = task(lambda _: seen.append(number()))\n"
        "start(work, None, 3, 0)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    seen.clear()\n"
        "    start(work, None, 3, 0)\n"
        "    os._exit(0 if sorted(seen) == [0, 1, 2] else 3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert printed == "0\n"
