"""Signals while a caller waits for the committer: handlers that raise, enqueue, or fork."""

import os
import threading
from pathlib import Path
from typing import Any

from tests.store.commit.test_group_commit import Crowd, await_more
from tests.support.children import Child


class Struck(Exception):
    """What a signal's handler raises."""


def _is_struck_while_it_sleeps(strikes: int, is_taken: bool) -> None:
    """The main thread sleeps in `result` while a signal's handler raises, once or twice."""
    import signal
    import time

    from outlast import OutcomeUnknown
    from tests.store.commit.test_group_commit import PATIENCE_SECONDS, Crowd
    from tests.store.commit.test_group_interrupts import Struck, strike_when_asleep
    from tests.support.childside import say

    crowd, struck = Crowd(100, PATIENCE_SECONDS), list[str]()
    noted: list[str] = []

    def handle(number: int, frame: object) -> None:
        struck.append("struck")
        raise Struck

    signal.signal(signal.SIGALRM, handle)
    if not is_taken:
        crowd.call("first")
        crowd.disk.await_group()
    operation = crowd.operation("interrupted")
    operation.in_doubt = lambda: noted.append("in doubt")
    strike_when_asleep(crowd, operation, struck, strikes, is_taken)
    try:
        operation.result()
    except (Struck, OutcomeUnknown) as error:
        say(type(error).__name__)
    say([operation.is_decided, operation.committed])
    crowd.call("next")
    crowd.join()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_taken and not operation.is_decided and time.monotonic() < deadline:
        time.sleep(0.001)
    say([crowd.disk.groups, noted])


def strike_when_asleep(
    crowd: Crowd, operation: Any, struck: list[str], strikes: int, is_taken: bool
) -> None:
    """From another thread: interrupt the main thread so often, then let the disk go on."""
    import signal
    import time

    def strike() -> None:
        if is_taken:
            crowd.disk.await_group()
        await_more(lambda: int(operation.asleep is not None), 0)
        for n in range(strikes):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGALRM)
            await_more(lambda: len(struck), n)
        time.sleep(0.05)
        crowd.disk.free()

    threading.Thread(target=strike, daemon=True).start()


def test_who_is_interrupted_before_it_was_taken_takes_its_operation_back() -> None:
    with Child(_is_struck_while_it_sleeps, 1, False) as child:
        assert child.hear() == "Struck"
        assert child.hear() == [False, False]
        assert child.hear() == [[["first"], ["next"]], []]


def test_who_is_interrupted_after_it_was_taken_waits_for_the_answer_and_raises_then() -> None:
    with Child(_is_struck_while_it_sleeps, 1, True) as child:
        assert child.hear() == "Struck"
        assert child.hear() == [True, True]
        assert child.hear() == [[["interrupted"], ["next"]], []]


def test_who_is_interrupted_twice_is_told_that_the_outcome_is_unknown() -> None:
    """And what it would have been handed is noted as in doubt, once it is durable."""
    with Child(_is_struck_while_it_sleeps, 2, True) as child:
        assert child.hear() == "OutcomeUnknown"
        assert child.hear() == [False, False]
        assert child.hear() == [[["interrupted"], ["next"]], ["in doubt"]]


def _calls_the_store_from_a_handler_while_it_waits(path: str) -> None:
    import os
    import signal
    import threading

    from outlast import Outlast, probes
    from tests.support.childside import say

    app = Outlast(path).open()
    inside, go_on = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "enqueue.begun" and not inside.is_set():
            inside.set()
            go_on.wait(60)

    def handle(number: int, frame: object) -> None:
        go_on.set()
        say(app.enqueue("work", id="of the handler").id)

    def strike() -> None:
        inside.wait(60)
        os.kill(os.getpid(), signal.SIGALRM)

    signal.signal(signal.SIGALRM, handle)
    probes.arm(hold)
    threading.Thread(target=strike, daemon=True).start()
    say(app.enqueue("work", id="of the main program").id)
    say(sorted(task.id for task in app.tasks()))
    app.close()


def test_a_handler_may_enqueue_while_its_thread_waits(database: Path) -> None:
    """What it interrupts is committed by another thread, and keeps nobody waiting."""
    with Child(_calls_the_store_from_a_handler_while_it_waits, database) as child:
        assert child.hear() == "of the handler"
        assert child.hear() == "of the main program"
        assert child.hear() == ["of the handler", "of the main program"]


def _forks_in_a_handler_while_it_waits() -> None:
    """The child's only thread sleeps for an answer that its parent's committer would give."""
    import os
    import signal
    import threading

    from outlast import StoreError
    from tests.store.commit.test_group_commit import PATIENCE_SECONDS, Crowd, await_more
    from tests.support.childside import say

    crowd = Crowd(100, PATIENCE_SECONDS)
    operation = crowd.operation("taken")
    pids: list[int] = []

    def handle(number: int, frame: object) -> None:
        pids.append(os.fork())
        if pids[0] == 0:
            crowd.queue.abandon()

    def strike() -> None:
        crowd.disk.await_group()
        await_more(lambda: int(operation.asleep is not None), 0)
        os.kill(os.getpid(), signal.SIGALRM)
        await_more(lambda: len(pids), 0)
        crowd.disk.free()

    signal.signal(signal.SIGALRM, handle)
    threading.Thread(target=strike, daemon=True).start()
    try:
        answer = operation.result()
    except StoreError as error:
        answer = str(error)
    say([pids[0] == 0, answer])
    if pids[0] == 0:
        os._exit(0)
    os.waitpid(pids[0], 0)


def test_a_child_that_was_forked_on_top_of_a_wait_is_answered() -> None:
    with Child(_forks_in_a_handler_while_it_waits) as child:
        told = dict(child.hear_all())
    assert told[False] == "taken"
    assert "forked" in told[True]
