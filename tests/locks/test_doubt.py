"""A lock whose commit is in doubt, or whose taker was interrupted, is nobody's for long."""

from pathlib import Path

import pytest

from outlast_lab.experiments.kill.writes import HALF, WHOLE
from tests.support.children import Child

EIO = 5


def _meets_a_failing_disk(path: str, point: str, code: int) -> None:
    """The frame that ends the commit of an acquire fails, with half or all of it in the file."""
    from outlast import OutcomeUnknown, Outlast, probes
    from outlast_lab.experiments.kill.writes import watch_writes
    from tests.support.childside import say

    failing = False
    last_header = b""

    def fail_the_commit_frame(name: str, at: str, written: bytes) -> int:
        nonlocal last_header
        if len(written) == 24:
            last_header = written
        ends_a_commit = last_header[4:8] != bytes(4)
        spoiled = failing and name.endswith("-wal") and len(written) > 24
        return code if spoiled and ends_a_commit and at == point else 0

    def arm(name: str) -> None:
        nonlocal failing
        failing = name == "lock.written"

    watch_writes(fail_the_commit_frame)
    app = Outlast(path)
    app.lock("warm up").acquire()
    probes.arm(arm)
    try:
        app.lock("x").acquire()
    except OutcomeUnknown as error:
        say(type(error).__name__)
    probes.arm(None)
    failing = False
    other = app.lock("y")
    say(other.acquire())
    say(sorted(found.name for found in app.locks()))
    lock = app.lock("x")
    say([lock.acquire(), lock.acquire(), lock.release()])
    app.close()


@pytest.mark.parametrize("point", [HALF, WHOLE])
def test_a_lock_whose_commit_was_in_doubt_is_freed_by_the_next_request(
    database: Path, point: str
) -> None:
    with Child(_meets_a_failing_disk, database, point, EIO) as child:
        assert child.hear() == "OutcomeUnknown"
        assert child.hear() is True
        assert child.hear() == ["warm up", "y"]
        assert child.hear() == [True, True, True]


def _is_interrupted(path: str) -> None:
    """Ctrl-C between the commit and its answer, which comes once the caller is interrupted."""
    import signal
    import threading

    from outlast import Outlast, probes
    from tests.support.childside import say

    app = Outlast(path)
    app.lock("warm up").acquire()
    struck, main = threading.Event(), threading.get_ident()

    def handle(number: int, frame: object) -> None:
        struck.set()
        raise KeyboardInterrupt

    def interrupt(name: str) -> None:
        if name == "lock.committed":
            probes.arm(None)
            signal.pthread_kill(main, signal.SIGINT)
            struck.wait(60)

    signal.signal(signal.SIGINT, handle)
    probes.arm(interrupt)
    try:
        app.lock("x").acquire()
    except KeyboardInterrupt:
        say("interrupted")
    say(app.lock("x").acquire())


def test_a_lock_that_its_interrupted_taker_never_heard_of_is_free_for_the_next(
    database: Path,
) -> None:
    with Child(_is_interrupted, database) as child:
        assert child.hear() == "interrupted"
        assert child.hear() is True
