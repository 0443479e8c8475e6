"""Every invariant of recovery's record can fail: a sound store is spoiled in one place and told."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest

from lab.tests.judge.test_invariants import played
from outlast_lab.judge.foreign_reader import Stored, StoredEvent
from outlast_lab.judge.invariants import violations
from outlast_lab.judge.recovery_rules import COMPLETED, DIED, PROGRESS, STARTED, objections
from outlast_lab.record.history import History

Spoil = Callable[[Stored], None]


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Stored]:
    return played("mend", tmp_path_factory.mktemp("mend"))


def _last(stored: Stored, kind: str) -> StoredEvent:
    return [event for event in stored.events if event.kind == kind][-1]


def _swap(stored: Stored, old: StoredEvent, new: StoredEvent) -> None:
    stored.events[stored.events.index(old)] = new


def _last_move_of_a_run(stored: Stored) -> tuple[str, int]:
    pos = max(stored.moved_by_runs)
    return next((one, n) for one, moves in stored.moves.items()
                for n, move in enumerate(moves) if move.pos == pos)  # fmt: skip


def end_a_run_twice(stored: Stored) -> None:
    end = _last(stored, COMPLETED)
    stored.events.append(end._replace(pos=stored.counters["transitions"] + 1))
    stored.counters["transitions"] += 1


def end_a_run_without_a_word(stored: Stored) -> None:
    _swap(stored, _last(stored, COMPLETED), _last(stored, COMPLETED)._replace(kind="other"))


def speak_of_an_end_that_is_not_stored(stored: Stored) -> None:
    assert stored.runs is not None
    stored.runs[7] = stored.runs[7]._replace(completed_at=None)


def begin_a_run_without_a_word(stored: Stored) -> None:
    _swap(stored, _last(stored, STARTED), _last(stored, STARTED)._replace(kind="other"))


def boast(stored: Stored) -> None:
    assert stored.runs is not None
    run_id = max(stored.runs)
    stored.runs[run_id] = stored.runs[run_id]._replace(put_back=99)


def forget_a_batch(stored: Stored) -> None:
    _swap(stored, _last(stored, PROGRESS), _last(stored, PROGRESS)._replace(kind="other"))


def tell_of_a_run_that_is_none(stored: Stored) -> None:
    _swap(stored, _last(stored, DIED), _last(stored, DIED)._replace(run_id=77))


def move_by_a_run_that_is_none(stored: Stored) -> None:
    stored.moved_by_runs[max(stored.moved_by_runs)] = 77


def move_when_the_run_was_over(stored: Stored) -> None:
    stored.moved_by_runs[max(stored.moved_by_runs)] = 6


def recover_in_the_name_of_a_worker(stored: Stored) -> None:
    task_id, number = _last_move_of_a_run(stored)
    moves = stored.moves[task_id]
    moves[number] = moves[number]._replace(actor="worker")


def bury_twice(stored: Stored) -> None:
    death = _last(stored, DIED)
    stored.counters["transitions"] += 1
    stored.events.append(death._replace(pos=stored.counters["transitions"]))


def bury_in_silence(stored: Stored) -> None:
    _swap(stored, _last(stored, DIED), _last(stored, DIED)._replace(kind="other"))


def rise_from_the_dead(stored: Stored) -> None:
    dead = [one for one in stored.workers.values() if one.state == "dead"]
    seq = max(stored.workers) + 1
    stored.workers[seq] = dead[-1]._replace(seq=seq, state="alive")


def leave_a_task_with_the_dead(stored: Stored) -> None:
    dead = [one for one in stored.workers.values() if one.state == "dead"]
    task = stored.tasks["t-5"]
    stored.tasks["t-5"] = task._replace(status="running", holder=dead[0].seq, worker_id="busy")


def expire_without_a_trace(stored: Stored) -> None:
    task_id = next(one for one, moves in stored.moves.items()
                   if any(move.reason == "lease_expired_retry" for move in moves))  # fmt: skip
    del stored.checkpoints[task_id]


def fail_by_expiry_without_a_trace(stored: Stored) -> None:
    assert stored.moves["t-0"][-1].reason == "max_retries_exceeded"
    del stored.checkpoints["t-0"]


def leave_two_traces(stored: Stored) -> None:
    (one,) = stored.checkpoints["t-0"]
    stored.checkpoints["t-0"].append(one._replace(number=2))


SPOILED: dict[Spoil, str] = {
    end_a_run_twice: "runs",
    end_a_run_without_a_word: "runs",
    speak_of_an_end_that_is_not_stored: "runs",
    begin_a_run_without_a_word: "runs",
    boast: "runs",
    forget_a_batch: "runs",
    tell_of_a_run_that_is_none: "runs",
    move_by_a_run_that_is_none: "runs",
    move_when_the_run_was_over: "runs",
    recover_in_the_name_of_a_worker: "runs",
    bury_twice: "deaths",
    bury_in_silence: "deaths",
    rise_from_the_dead: "deaths",
    leave_a_task_with_the_dead: "deaths",
    expire_without_a_trace: "expiries",
    fail_by_expiry_without_a_trace: "expiries",
    leave_two_traces: "expiries",
}


def test_in_the_life_of_mending_progress_gives_one_task_a_loss_more(
    mended: tuple[History, Stored],
) -> None:
    _, stored = mended
    counted = {one.id: (one.recovery_count, one.crashes_in_row) for one in stored.tasks.values()}
    assert (counted["t-3"], counted["t-4"]) == ((1, 1), (2, 1))


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
def test_what_is_broken_in_the_record_is_told(mended: tuple[History, Stored], spoil: Spoil) -> None:
    _, stored = deepcopy(mended)
    assert list(objections(stored)) == []
    spoil(stored)
    assert SPOILED[spoil] in {kind for kind, _, _ in objections(stored)}


def test_a_recovery_that_was_reported_and_is_not_on_record_is_told(
    mended: tuple[History, Stored],
) -> None:
    history, stored = deepcopy(mended)
    assert violations(history, stored) == []
    reported = [call for call in history.of("recover") if call.is_done]
    assert len(reported) == 2
    reported[0].value[1] += 1
    assert "lost" in {one.kind for one in violations(history, stored)}


def test_a_lease_that_was_taken_by_force_is_not_called_expired(
    mended: tuple[History, Stored],
) -> None:
    """And without force nobody explains it."""
    history, stored = deepcopy(mended)
    for call in history.of("reclaim_stale"):
        call.arguments["force"] = False
    assert {one.kind for one in violations(history, stored)} == {"overlap"}


def test_a_store_that_knows_no_runs_yet_has_no_record_to_judge(
    mended: tuple[History, Stored],
) -> None:
    assert list(objections(replace(mended[1], runs=None, counters={}))) == []


def test_with_a_task_its_places_go(mended: tuple[History, Stored]) -> None:
    """Whoever takes a task takes its moves: then what runs moved is no complaint."""
    _, stored = deepcopy(mended)
    places = {move.pos for move in stored.moves["t-5"]}
    stored.moved_by_runs = {p: r for p, r in stored.moved_by_runs.items() if p not in places}
    del stored.tasks["t-5"], stored.moves["t-5"]
    assert [kind for kind, _, _ in objections(stored) if kind == "runs"] == []
