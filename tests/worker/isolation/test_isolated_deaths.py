"""The ends of isolated handlers: by crash, by kill, by the death of their worker."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.worker.isolation.process import IsolatedProcess
from outlast.worker.isolation.slot import IsolatedSlot
from tests.support.children import Child
from tests.worker.isolation import isolated_jobs as jobs
from tests.worker.isolation.isolated_stage import (
    PATIENCE_SECONDS,
    Running,
    attempt,
    end_of,
    gone_after_seconds,
    lives,
    pids_in,
)


@pytest.fixture
def slot() -> Iterator[IsolatedSlot]:
    made = IsolatedSlot()
    yield made
    made.close()


@pytest.fixture
def sign(tmp_path: Path) -> Path:
    return tmp_path / "sign"


def test_a_segfault_ends_only_its_own_attempt(app: Outlast, slot: IsolatedSlot) -> None:
    ended = end_of(slot, app, jobs.segfaults)
    assert ended.error is not None
    assert ended.error.startswith("the handler's process was killed by SIGSEGV (peak memory ")
    assert ended.exit_signal == signal.SIGSEGV
    assert ended.retryable
    assert ended.peak_memory_bytes is not None
    assert end_of(slot, app, jobs.add, a=1, b=2).result == "3"


@pytest.mark.slow
@pytest.mark.parametrize("status", [0, 3])
def test_a_process_that_leaves_without_goodbye_has_failed(
    app: Outlast, slot: IsolatedSlot, status: int
) -> None:
    ended = end_of(slot, app, jobs.leaves, status=status)
    assert ended.error is not None
    assert ended.error.startswith(f"the handler's process exited with status {status} (peak ")
    assert ended.exit_signal is None
    assert ended.retryable


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGRTMIN + 1])
def test_the_signal_that_ended_a_process_is_told(
    app: Outlast, slot: IsolatedSlot, number: int
) -> None:
    ended = end_of(slot, app, jobs.is_killed, number=int(number))
    assert ended.exit_signal == number
    assert ended.error is not None
    assert ("want of memory" in ended.error) == (number == signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_died_in_between_costs_the_next_task_nothing(
    app: Outlast, slot: IsolatedSlot
) -> None:
    end_of(slot, app, jobs.add, a=1, b=2)
    assert slot.pid is not None
    os.kill(slot.pid, signal.SIGKILL)
    ended = end_of(slot, app, jobs.add, a=2, b=2)
    assert (ended.result, ended.error) == ("4", None)


@pytest.mark.slow
def test_a_kill_ends_the_handler_at_once_and_says_why(
    app: Outlast, slot: IsolatedSlot, sign: Path
) -> None:
    with Running(slot, app, jobs.stays, sign=str(sign)) as running:
        pids = pids_in(sign)
        assert slot.kill("it was cancelled")
        gone_after_seconds(*pids)
        ended = running.ended()
    assert ended.error is not None
    assert ended.error.startswith("the handler's process was killed: it was cancelled (peak ")
    assert ended.exit_signal == signal.SIGKILL
    assert ended.peak_memory_bytes is not None
    assert ended.peak_memory_bytes > jobs.MIB
    assert end_of(slot, app, jobs.add, a=1, b=2).result == "3"


def test_a_handler_that_holds_the_interpreter_is_killed_all_the_same(
    app: Outlast, slot: IsolatedSlot, sign: Path
) -> None:
    with Running(slot, app, jobs.holds_the_interpreter, sign=str(sign)) as running:
        pids = pids_in(sign)
        slot.kill("it was cancelled")
        assert gone_after_seconds(*pids) < 1
        assert running.ended().exit_signal == signal.SIGKILL


def test_a_kill_that_was_meant_for_another_attempt_does_nothing(
    app: Outlast, slot: IsolatedSlot, sign: Path
) -> None:
    earlier, _ = attempt(app, jobs.add, a=1, b=2)
    with Running(slot, app, jobs.stays, sign=str(sign)) as running:
        pids = pids_in(sign)
        assert not slot.kill("too late", only=earlier.grant)
        assert all(lives(pid) for pid in pids)
        assert slot.kill("in time", only=running.claimed.grant)
        assert "in time" in (running.ended().error or "")


@pytest.mark.slow
def test_a_kill_of_an_idle_slot_does_not_reach_the_next_task(
    app: Outlast, slot: IsolatedSlot
) -> None:
    end_of(slot, app, jobs.add, a=1, b=2)
    slot.kill("nothing runs")
    assert end_of(slot, app, jobs.add, a=1, b=2).result == "3"


def test_a_task_that_is_called_off_before_it_starts_is_not_started(
    app: Outlast, slot: IsolatedSlot, sign: Path
) -> None:
    claimed, ctx = attempt(app, jobs.stays, sign=str(sign))
    ctx.cancel("the lease is lost")
    ended = slot.run(jobs.stays, claimed, ctx)
    assert ended.error == "the handler was not started: the lease is lost"
    assert slot.pid is None


def test_a_kill_while_the_process_starts_is_not_forgotten(
    app: Outlast, slot: IsolatedSlot, sign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill comes after the attempt is known and before there is a process to kill."""

    def killed_meanwhile(lock: int | None) -> IsolatedProcess:
        assert slot.kill("much too early")
        return IsolatedProcess(lock)

    monkeypatch.setattr("outlast.worker.isolation.slot.IsolatedProcess", killed_meanwhile)
    ended = end_of(slot, app, jobs.stays, sign=str(sign))
    assert ended.error is not None
    assert "was killed: much too early" in ended.error
    assert not sign.exists()


def test_a_handler_that_takes_longer_than_its_timeout_is_killed(
    app: Outlast, slot: IsolatedSlot, sign: Path
) -> None:
    with Running(slot, app, jobs.stays, timeout_seconds=0.2, sign=str(sign)) as running:
        ended = running.ended()
    assert ended.error is not None
    assert "killed: it ran longer than its timeout of 0.2 s (peak memory" in ended.error
    assert ended.exit_signal == signal.SIGKILL
    assert gone_after_seconds(*pids_in(sign)) < 1


@pytest.mark.parametrize("way", ["exec", "fork"])
def test_what_a_handler_started_is_killed_with_it(
    app: Outlast, slot: IsolatedSlot, sign: Path, way: str
) -> None:
    with Running(slot, app, jobs.starts_another, sign=str(sign), way=way, stays=True):
        pids = pids_in(sign)
        assert all(lives(pid) for pid in pids)
        slot.kill("it was cancelled")
        assert gone_after_seconds(*pids) < 1


def test_what_a_handler_started_is_killed_when_its_process_ends_by_itself(
    app: Outlast, slot: IsolatedSlot, sign: Path
) -> None:
    ended = end_of(slot, app, jobs.starts_another, sign=str(sign), way="exec", stays=False)
    assert ended.error is not None
    assert "exited with status 0" in ended.error
    assert gone_after_seconds(*pids_in(sign)) < 1


def test_a_fork_that_comes_back_from_the_handler_ends_there(
    app: Outlast, slot: IsolatedSlot, tmp_path: Path
) -> None:
    assert end_of(slot, app, jobs.comes_back_twice, mark=str(tmp_path / "mark")).result == "false"
    assert end_of(slot, app, jobs.add, a=1, b=2).result == "3"


def test_a_fork_of_the_handlers_cannot_use_its_context(
    app: Outlast, slot: IsolatedSlot, tmp_path: Path
) -> None:
    ended = end_of(slot, app, jobs.asks_in_a_fork, mark=str(tmp_path / "mark"))
    assert ended.result is not None
    assert "it belongs to the process that forked this one" in ended.result


def test_what_a_handler_started_can_be_terminated(app: Outlast, slot: IsolatedSlot) -> None:
    ended = end_of(slot, app, jobs.ends_children_politely)
    assert ended.result == f"[-{signal.SIGTERM},-{signal.SIGTERM}]"


def test_a_signal_to_all_processes_of_a_service_does_not_end_its_handlers(
    app: Outlast, slot: IsolatedSlot
) -> None:
    """The worker was told as well, and gives its handlers the time they need."""
    assert end_of(slot, app, jobs.is_told_to_stop).result == '"went on"'
    assert end_of(slot, app, jobs.add, a=1, b=2).result == "3"


def test_a_handler_that_closes_every_descriptor_ends_its_attempt(
    app: Outlast, slot: IsolatedSlot
) -> None:
    with Running(slot, app, jobs.closes_everything) as running:
        ended = running.ended()
    assert ended.error is not None
    assert ended.exit_signal == signal.SIGKILL


def test_the_death_of_the_keeper_ends_the_attempt(
    app: Outlast, slot: IsolatedSlot, sign: Path
) -> None:
    with Running(slot, app, jobs.stays, sign=str(sign)) as running:
        handler, keeper = pids_in(sign)
        os.kill(keeper, signal.SIGKILL)
        gone_after_seconds(handler)
        assert running.ended().exit_signal == signal.SIGKILL


def test_many_kills_at_the_same_time_are_one(app: Outlast, slot: IsolatedSlot, sign: Path) -> None:
    with Running(slot, app, jobs.stays, sign=str(sign)) as running:
        pids_in(sign)
        threads = [threading.Thread(target=slot.kill, args=(f"reason {n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        assert "was killed: reason" in (running.ended().error or "")


def _ends_processes_in_every_way(path: str) -> None:
    import os

    from outlast import Outlast, Settings
    from outlast.worker.isolation.slot import IsolatedSlot
    from tests.support.childside import say
    from tests.worker.isolation import isolated_jobs as jobs
    from tests.worker.isolation.isolated_stage import end_of, gone_after_seconds, open_descriptors

    # The detector's thread opens its own descriptors whenever it gets to it.
    app = Outlast(path, settings=Settings(detection_interval_seconds=0))
    end_of(warm := IsolatedSlot(), app, jobs.add, a=1, b=2)
    warm.close()
    before = open_descriptors()
    slot = IsolatedSlot()
    pids = []
    for function in (jobs.segfaults, jobs.own_pid, jobs.own_pid):
        end_of(slot, app, function)
        pids.append(slot.pid)
    slot.kill("on purpose")
    end_of(slot, app, jobs.own_pid)
    pids.append(slot.pid)
    slot.close()
    say(open_descriptors() - before)
    gone_after_seconds(*(pid for pid in pids if pid is not None))
    try:
        say(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        say("no children")


def test_a_closed_slot_leaves_neither_processes_nor_descriptors(tmp_path: Path) -> None:
    """Processes that ended in every way: by themselves, killed, and let go."""
    with Child(_ends_processes_in_every_way, tmp_path / "work.db") as child:
        assert child.hear() == 0
        assert child.hear() == "no children"
