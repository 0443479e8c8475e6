"""The nursery of the tests' children: they must be as good as processes that were started."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.children import ROOT, Child
from tests.support.nursery import Nursery, _Here, has_ended, nursery

PATIENCE_SECONDS = 60


def _tells_of_itself() -> None:
    import os
    import sys

    from tests.support.childside import hear, say

    open_before = sorted(map(int, os.listdir("/proc/self/fd")))[:-1]
    say([os.getpid(), os.getcwd(), open_before, sys.path[0], os.environ.get("GIVEN")])
    hear()


def _ends_with(code: int) -> None:
    import sys

    sys.exit(code)


def _breaks() -> None:
    raise ValueError("of this child")


def _is_interrupted() -> None:
    import signal

    from tests.support.childside import say

    say(signal.getsignal(signal.SIGINT) is signal.default_int_handler)


def test_a_child_is_a_process_of_its_own_with_nothing_open_but_its_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIVEN", "to it")
    with Child(_tells_of_itself) as child:
        assert child.hear() == [child.pid, str(ROOT), [0, 1, 2], "", "to it"]


def test_the_ends_of_children_are_told_as_those_of_processes() -> None:
    with Child(_ends_with, 7) as child:
        assert child.wait() == 7
    with Child(_tells_of_itself) as child:
        child.hear()
        child.dies_of(signal.SIGTERM)
        state = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "Z", "nobody has buried it yet"
        assert child.wait() == -signal.SIGTERM
        assert not Path(f"/proc/{child.pid}").exists()
    with Child(_breaks) as child:
        assert "ValueError: of this child" in child.error()
        assert child.wait() == 1


def test_a_child_can_be_interrupted_although_the_nursery_cannot() -> None:
    made = nursery()
    assert made is not None
    with Child(_is_interrupted) as child:
        # Once it has answered, it has begun to serve.
        os.kill(made._process.pid, signal.SIGINT)
        assert child.hear() is True
    with Child(_is_interrupted) as child:
        assert child.hear() is True
    assert made.is_here()


def test_several_threads_may_wait_for_one_child() -> None:
    """Guards against a second burial, which would take the nursery with it."""
    told: list[int] = []
    with Child(_tells_of_itself) as child:
        child.hear()
        threads = [threading.Thread(target=lambda: told.append(child.wait())) for _ in range(8)]
        for thread in threads:
            thread.start()
        child.signal(signal.SIGKILL)
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert told == [-signal.SIGKILL] * 8


def test_an_answer_that_was_not_waited_for_is_not_the_next_ones() -> None:
    """Guards against a pid that is none: an exception may strike between question and answer."""
    made = nursery()
    assert made is not None

    class Struck:
        def __init__(self, control: object) -> None:
            self.control = control

        def recv(self, size: int) -> bytes:
            raise KeyboardInterrupt

        def __getattr__(self, name: str) -> object:
            return getattr(self.control, name)

    control = made._control
    made._control = Struck(control)  # type: ignore[assignment]
    try:
        with pytest.raises(KeyboardInterrupt):
            made.bury(os.getpid())
    finally:
        made._control = control
    with Child(_tells_of_itself) as child:
        assert child.hear()[0] == child.pid


def test_what_cannot_be_told_to_a_fork_takes_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nursery() is not None
    before = os.umask(0o027)
    try:
        assert nursery() is None
    finally:
        os.umask(before)
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    assert nursery() is None
    with Child(_tells_of_itself) as child:
        assert child.hear()[0] == child.pid


def test_a_nursery_that_has_ended_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Nursery()
    monkeypatch.setattr(_Here, "nursery", lost)
    lost._process.kill()
    lost._process.wait(PATIENCE_SECONDS)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises((AssertionError, OSError)):
        lost.child("pass", "")
    assert len(os.listdir("/proc/self/fd")) == before, "nothing is left open"
    with Child(_tells_of_itself) as child:
        assert child.hear()[0] == child.pid
    assert _Here.nursery is not None
    _Here.nursery.end()


@pytest.mark.slow
def test_nobody_is_left_behind_by_tests_that_are_killed() -> None:
    program = (
        "from tests.support.children import Child\n"
        "from tests.support.test_nursery import _tells_of_itself\n"
        "child = Child(_tells_of_itself)\n"
        "child.hear()\n"
        "from tests.support.nursery import _Here\n"
        "print(child.pid, _Here.nursery._process.pid, flush=True)\n"
        "input()\n"
    )
    asker = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with asker:
        assert asker.stdout is not None
        pids = [int(pid) for pid in asker.stdout.readline().split()]
        assert len(pids) == 2
        asker.kill()
        for pid in pids:
            assert has_ended(pid, PATIENCE_SECONDS)
