"""Calls of an Outlast that share one transaction, and what each of them returned or raised."""

import threading
import time
from collections.abc import Callable
from typing import Any

from outlast import Outlast, probes
from outlast.store.commit.commit_queue import CommitQueue
from tests.store.hand import store_of

PATIENCE_SECONDS = 60


def is_committing(queue: CommitQueue) -> bool:
    """Whether operations are taken and not answered; the committer lets go of a batch later."""
    batch = queue.under_way
    return batch is not None and bool(batch.members) and not batch.is_answered


def in_one_group(app: Outlast, first: str, *calls: Callable[[], Any]) -> list[Any]:
    """What each call returned or raised, in their order; they share one transaction.

    An enqueue of `first` is held inside its own transaction until all of them are queued.
    """
    inside, queued = threading.Event(), threading.Event()
    group, armed = store_of(app).tasks._access.queue, probes.armed()

    def hold_the_first(name: str) -> None:
        if armed is not None:
            armed(name)
        if name == "enqueue.begun" and not inside.is_set():
            inside.set()
            queued.wait(PATIENCE_SECONDS)

    probes.arm(hold_the_first)
    answers: list[Any] = [None] * (len(calls) + 1)
    threads = [answering(answers, 0, lambda: app.enqueue("work", id=first).id)]
    assert inside.wait(PATIENCE_SECONDS)
    for n, call in enumerate(calls, 1):
        threads.append(answering(answers, n, call))
        await_that(lambda n=n: len(group.shared) == n)  # type: ignore[misc]
    queued.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "nobody may hang"
    probes.arm(armed)
    assert answers[0] == first
    return answers[1:]


def answering(answers: list[Any], n: int, call: Callable[[], Any]) -> threading.Thread:
    def answer() -> None:
        try:
            answers[n] = call()
        except Exception as error:
            answers[n] = error

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    return thread


def await_that(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.0005)
