"""Native threads take parts of work: each part once, one phase after the other, whoever comes."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from triton_dsl.runtime.native import native_team
from triton_dsl.runtime.native.team_code import team_code
from triton_dsl.runtime.native.threads import processors

pytest.importorskip("llvmlite")
if os.name != "posix":
    pytest.skip("needs POSIX threads", allow_module_level=True)

PREAMBLE = """
import ctypes, os, subprocess, sys, threading, time
from triton_dsl.runtime.native import native_team, threads
threads.processors = lambda: 4
def hire():
    native_team._LONGEST_PAUSE = 0
    nothing = part(lambda *_: None)
    own, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, others)
    threads.together(nothing, None, 4, (16, 0))
    os.sched_setaffinity(0, [own])
def while_time():
    end = time.monotonic() + 60
    while time.monotonic() < end: yield
part = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4)
"""


apart = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or processors() < 2,
    reason="members help on other processors than the caller's, which the system must tell",
)
"""Tests of what members do, which are made to run where they can help."""


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


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("things", [(0, 0), (1, 0), (5, 0), (1000, 3), (3, 1000), (0, 7)])
def test_everything_is_done_once_in_order(count: int, things: tuple[int, int]) -> None:
    printed = run(
        f"count, things = {count}, {things}\n"
        "for _ in range(20):\n"
        "    seen = []\n"
        "    def work(argument, phase, first, end, member):\n"
        "        assert 0 <= member < min(count, 4) and argument == 64\n"
        "        seen.extend((phase, i) for i in range(first, end))\n"
        "    threads.together(part(work), 64, count, things)\n"
        "    assert sorted(seen) == [(p, i) for p in (0, 1) for i in range(things[p])]\n"
        "    assert [p for p, _ in seen] == sorted(p for p, _ in seen)\n"
        "print('ok')\n"
    )
    assert printed == "ok\n"


@apart
def test_members_that_are_at_work_together_have_numbers_of_their_own() -> None:
    printed = run(
        "hire()\n"
        "inside, lock = set(), threading.Lock()\n"
        "def work(_, phase, first, end, member):\n"
        "    with lock:\n"
        "        assert member not in inside\n"
        "        inside.add(member)\n"
        "    time.sleep(0.001)\n"
        "    with lock: inside.remove(member)\n"
        "    seen.add(member)\n"
        "for _ in while_time():\n"
        "    seen = set()\n"
        "    threads.together(part(work), None, 3, (12, 12))\n"
        "    if len(seen) == 3: break\n"
        "print(sorted(seen))\n"
    )
    assert printed == "[0, 1, 2]\n"


@apart
def test_members_that_sleep_are_woken() -> None:
    printed = run(
        "hire()\n"
        "def work(_, phase, first, end, member):\n"
        "    seen.add(member)\n"
        "    time.sleep(0.002)\n"
        "for pause in (0, 0.0003, 0.001, 0.1):\n"
        "    seen = set()\n"
        "    for _ in while_time():\n"
        "        threads.together(part(work), None, 4, (16, 0))\n"
        "        time.sleep(pause)\n"
        "        if len(seen) == 4: break\n"
        "    print(sorted(seen))\n"
    )
    assert printed == 4 * "[0, 1, 2, 3]\n"


def test_few_things_are_a_part_each_though_fewer_threads_come_than_asked_for() -> None:
    printed = run(
        "seen = []\n"
        "work = part(lambda _, p, first, end, member: seen.append((p, first, end)))\n"
        "threads.together(work, None, 9, (36, 35))\n"
        "print(sorted(seen) == [(p, i, i + 1) for p in (0, 1) for i in range(36 - p)])\n"
    )
    assert printed == "True\n"


def test_a_call_during_a_call_is_done_alone() -> None:
    printed = run(
        "seen = []\n"
        "inner = part(lambda _, p, first, end, member: seen.append((first, end, member)))\n"
        "def work(_, phase, first, end, member):\n"
        "    threads.together(inner, None, 4, (8, 0))\n"
        "threads.together(part(work), None, 3, (3, 0))\n"
        "print(seen)\n"
    )
    assert printed == "[(0, 8, 0), (0, 8, 0), (0, 8, 0)]\n"


def test_several_threads_may_call() -> None:
    printed = run(
        "totals = []\n"
        "def caller():\n"
        "    done = []\n"
        "    work = part(lambda _, p, first, end, m: done.extend(range(first, end)))\n"
        "    for _ in range(100): threads.together(work, None, 3, (12, 0))\n"
        "    totals.append(sum(done))\n"
        "callers = [threading.Thread(target=caller) for _ in range(6)]\n"
        "for t in callers: t.start()\n"
        "for t in callers: t.join()\n"
        "print(totals == [6600] * 6)\n"
    )
    assert printed == "True\n"


@apart
def test_a_forked_process_has_members_of_its_own() -> None:
    printed = run(
        "def work(_, phase, first, end, member):\n"
        "    seen.add(member)\n"
        "    time.sleep(0.002)\n"
        "def members():\n"
        "    for _ in while_time():\n"
        "        threads.together(part(work), None, 3, (12, 0))\n"
        "        if len(seen) == 3: break\n"
        "    return sorted(seen)\n"
        "seen = set()\n"
        "everywhere = os.sched_getaffinity(0)\n"
        "hire()\n"
        "members()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    seen.clear()\n"
        "    os.sched_setaffinity(0, everywhere)\n"
        "    hire()\n"
        "    os._exit(0 if members() == [0, 1, 2] else 3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert printed == "0\n"


def test_nobody_waits_for_members_without_a_processor() -> None:
    """Busy processes on all processors: every part is done once, and calls are not held up."""
    printed = run(
        "line = [sys.executable, '-c', 'while True: pass']\n"
        "busy = [subprocess.Popen(line) for _ in range(2 * os.cpu_count())]\n"
        "try:\n"
        "    done = []\n"
        "    def work(_, phase, first, end, member):\n"
        "        done.extend((phase, i) for i in range(first, end))\n"
        "    expected = sorted((p, i) for p in (0, 1) for i in range(24))\n"
        "    for _ in range(500):\n"
        "        done.clear()\n"
        "        threads.together(part(work), None, 4, (24, 24))\n"
        "        assert sorted(done) == expected\n"
        "finally:\n"
        "    for process in busy: process.kill()\n"
        "print('ok')\n"
    )
    assert printed == "ok\n"


@apart
def test_a_caller_that_was_held_up_does_without_others_for_a_while() -> None:
    printed = run(
        "hire()\n"
        "native_team._LONGEST_PAUSE = native_team._TURN = 10**9\n"
        "late = []\n"
        "def work(_, phase, first, end, member):\n"
        "    seen.add(member)\n"
        "    if member: late.append(time.sleep(0.05))\n"
        "    else: time.sleep(0.001)\n"
        "quick = part(lambda _, p, first, end, member: seen.add(member))\n"
        "seen = set()\n"
        "for _ in while_time():\n"
        "    threads.together(part(work), None, 2, (8, 0))\n"
        "    if late: break\n"
        "seen.clear()\n"
        "for _ in range(20): threads.together(quick, None, 2, (8, 0))\n"
        "print(seen)\n"
        "def slow(_, phase, first, end, member):\n"
        "    seen.add(member)\n"
        "    time.sleep(0.001)\n"
        "for _ in while_time():\n"
        "    threads.together(part(slow), None, 2, (8, 0))\n"
        "    if 1 in seen: break\n"
        "print(seen)\n"
    )
    assert printed == "{0}\n{0, 1}\n"


def test_however_long_others_hold_a_caller_up_it_counts_as_a_turn() -> None:
    """And twice as long the next time; each call that is not held up halves it."""

    class Code:
        def team(self, most: int) -> Any:
            return np.zeros(most, np.int64)

    code: Any = Code()
    team: Any = native_team.Team(code, 1)
    pauses: list[float] = []
    for lost in (10**9, 10**9, 0, 10**6):
        team._alone_until = 0
        assert team._running(lambda _, lost=lost: lost, 1)
        pauses.append(team._pause / 1e6)
    assert pauses == [64, 128, 64, 128]


@apart
def test_members_keep_off_the_processor_of_the_caller() -> None:
    printed = run(
        "os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])\n"
        "seen, done = set(), []\n"
        "def work(_, phase, first, end, member):\n"
        "    seen.add(member)\n"
        "    done.extend(range(first, end))\n"
        "    time.sleep(0.0005)\n"
        "for _ in range(100):\n"
        "    done.clear()\n"
        "    threads.together(part(work), None, 4, (16, 0))\n"
        "    assert sorted(done) == list(range(16))\n"
        "print(seen, native_team._TEAMS[0]._pause >= native_team._VAIN)\n"
    )
    assert printed == "{0} True\n"


@pytest.mark.parametrize(
    "triple", ["aarch64-unknown-linux-gnu", "arm64-apple-darwin22.0.0", "x86_64-apple-darwin22.0.0"]
)
def test_other_processors_and_systems_have_code(triple: str) -> None:
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    text = team_code(triple)
    # Only Linux tells on which processor a thread runs.
    assert ("sched_getcpu" in text) == ("linux" in triple)
    machine = binding.Target.from_triple(triple).create_target_machine()
    assembly = machine.emit_assembly(binding.parse_assembly(text))
    assert "run_team" in assembly and ("yield" in assembly or "pause" in assembly)


def test_forked_processes_without_threads_of_pytorch_have_ours() -> None:
    pytest.importorskip("torch")
    printed = run(
        "import torch\n"
        "seen = []\n"
        "work = part(lambda _, phase, first, end, member: seen.extend(range(first, end)))\n"
        "threads.with_pytorch(work, None, 3, (12, 0))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    seen.clear()\n"
        "    threads.with_pytorch(work, None, 3, (12, 0))\n"
        "    os._exit(0 if sorted(seen) == list(range(12)) else 3)\n"
        "print(sorted(seen) == list(range(12)))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert printed == "True\n0\n"
