"""The commit queue where it is left early: by interrupts, forks, and writers that stand still."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from outlast import QueueStalled
from outlast.store.commit.batch import Batch
from outlast.store.commit.commit_queue import CommitQueue
from outlast.store.commit.operation import Operation

PATIENCE_SECONDS = 30


class Struck(BaseException):
    """What a signal's handler raises."""


def queue_on(commit: Callable[[Batch], None]) -> CommitQueue:
    return CommitQueue(commit, (100, PATIENCE_SECONDS))


def operation_on(queue: CommitQueue, name: str = "one") -> Operation[Any]:
    return Operation(queue, name, lambda tx: name)


def outcome(operation: Operation[Any]) -> list[BaseException]:
    """What waiting for it raised; nothing if it never ended."""
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            operation.result()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    return raised


def test_one_who_is_struck_while_he_refuses_his_own_operation_does_not_wait_for_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = queue_on(lambda batch: batch.succeed())
    queue.close()

    def strike(batch: Batch, error: BaseException) -> None:
        raise Struck

    monkeypatch.setattr(Batch, "conclude", strike)
    assert [type(one) for one in outcome(operation_on(queue))] == [Struck]


def test_what_was_answered_before_a_fork_is_left_alone_in_the_child() -> None:
    """Its caller's lock is free, and releasing it once more would be an error."""
    queue = queue_on(lambda batch: batch.succeed())
    answered = operation_on(queue)
    answered.result()
    # Released, and its caller has not run since.
    answered.asleep = threading.Lock()
    waiting = operation_on(queue, "waiting")
    waiting.asleep = threading.Lock()
    waiting.asleep.acquire()
    queue.under_way = Batch((answered, waiting))
    queue.abandon()
    assert not waiting.asleep.locked()
    assert "stayed with the parent" in str(waiting.error)
    assert answered.result() is None


def test_a_stalled_store_refuses_who_waited_and_tries_again_for_who_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A caller that tries again at once must not be refused for what another waited for."""
    tries: list[list[str]] = []

    def commit(batch: Batch) -> None:
        tries.append([member.context for member in batch.members])
        if len(tries) == 1:
            queue.shared.append(waiting)
            raise QueueStalled(1, 30.0)
        batch.succeed()

    queue = queue_on(commit)
    waiting, later = operation_on(queue, "waiting"), operation_on(queue, "later")
    real = Batch.answer

    def answer(batch: Batch) -> None:
        real(batch)
        if waiting in batch.members:
            queue.shared.append(later)

    monkeypatch.setattr(Batch, "answer", answer)
    assert [type(one) for one in outcome(operation_on(queue, "first"))] == [QueueStalled]
    queue.close()
    assert isinstance(waiting.error, QueueStalled)
    assert (tries, later.committed) == ([["first"], ["later"]], True)


def test_an_error_after_the_answers_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def commit(batch: Batch) -> None:
        batch.succeed()
        batch.answer()
        raise OSError("nobody could be told")

    queue = queue_on(commit)
    assert operation_on(queue).result() is None
    queue.close()
    assert "nobody could be told" in caplog.text


def test_callers_of_one_batch_get_an_error_each() -> None:
    """What one of them notes on it is not read by the others."""
    queue = queue_on(lambda batch: batch.succeed())
    cause = OSError("the disk is gone")
    stalled = QueueStalled(12, 3.0)
    stalled.__cause__ = cause
    batch = Batch([operation_on(queue, "one"), operation_on(queue, "other")])
    batch.conclude(stalled)
    errors = [outcome(member)[0] for member in batch.members]
    errors[0].add_note("of the first")
    assert [str(error) for error in errors] == [str(stalled)] * 2
    assert [error.__cause__ for error in errors] == [cause] * 2
    assert not hasattr(errors[1], "__notes__")
