"""The judge of operators' acts: a life of theirs is spoiled in one place, and it is told."""

from collections.abc import Callable
from copy import deepcopy

import pytest

from lab.tests.test_invariants import played
from outlast_lab.acts import APPROVE, FORCE, FORCE_MANY
from outlast_lab.audited import HEALED, LOCK_FREED, MARKED_DEAD, PAUSED, RECOVERED
from outlast_lab.history import Call, History
from outlast_lab.invariants import violations
from outlast_lab.locks import MARK_DEAD
from outlast_lab.stored import Stored, StoredAct, StoredLock
from outlast_lab.wholeness import violations_of_file

Spoil = Callable[[History, Stored], None]


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Stored]:
    return played("operate", tmp_path_factory.mktemp("operate"))


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Stored]:
    return played("approve by name", tmp_path_factory.mktemp("approve"))


def entry(stored: Stored, action: str, nth: int = 0) -> StoredAct:
    return [act for act in stored.audit or () if act.action == action][nth]


def call(history: History, verb: str, nth: int = 0) -> Call:
    return [one for one in history.of(verb) if one.is_done and one.value][nth]


def without_entry(action: str, nth: int = 0) -> Spoil:
    def spoil(history: History, stored: Stored) -> None:
        assert stored.audit is not None
        stored.audit.remove(entry(stored, action, nth))

    return spoil


def without_event(kind: str) -> Spoil:
    def spoil(history: History, stored: Stored) -> None:
        gone = next(one for one in stored.events if one.kind == kind and "operator/" in one.data)
        stored.events.remove(gone)

    return spoil


def entered_twice(action: str) -> Spoil:
    def spoil(history: History, stored: Stored) -> None:
        assert stored.audit is not None
        stored.audit.append(entry(stored, action))

    return spoil


def changed_entry(action: str, nth: int, **change: object) -> Spoil:
    def spoil(history: History, stored: Stored) -> None:
        assert stored.audit is not None
        place = stored.audit.index(entry(stored, action, nth))
        stored.audit[place] = stored.audit[place]._replace(**change)  # type: ignore[arg-type]

    return spoil


def moved_by_another(history: History, stored: Stored) -> None:
    moves = stored.moves["t-0"]
    stored.moves["t-0"] = [
        one._replace(actor="operator/carl") if one.actor == "operator/anna" else one
        for one in moves
    ]


def still_locked(history: History, stored: Stored) -> None:
    data = entry(stored, LOCK_FREED).data
    assert '"token": 2' in data
    stored.locks["x"] = StoredLock("x", "a", 2)


def a_clone_is_gone(history: History, stored: Stored) -> None:
    clone = call(history, FORCE_MANY, 1).value[0][2]
    del stored.tasks[clone]
    stored.counters["tasks"] -= 1


BY_THE_FILE: dict[str, Spoil] = {
    "a forced move that is not on record": without_entry("task.pending"),
    "an unparking that is not on record": without_entry("task.pending", 1),
    "many that were failed, not on record": without_entry("task.fail", 1),
    "a cancelling that is not on record": without_entry("task.cancel"),
    "a death that is not on record": without_entry(MARKED_DEAD),
    "a burial that is not on record": without_entry(HEALED),
    "a freed lock that is not on record": without_entry(LOCK_FREED),
    "a pause that is not on record": without_entry(PAUSED),
    "an entry for an unparking that was not": without_event("task.unparked"),
    "an entry for a death that was not": without_event("worker.dead"),
    "an entry for a lock that was not freed": without_event("lock.released"),
    "an entry for a pause that was not": without_event("queue.paused"),
    "an act that stands there twice": entered_twice("task.park"),
    "a freed lock that stands there twice": entered_twice(LOCK_FREED),
    "another's name": moved_by_another,
    "a lock that was freed and is held": still_locked,
    "a clone that is not there": a_clone_is_gone,
    "one that is not named": changed_entry("task.fail", 1, data='{"changed":3,"task_ids":["g-1"]}'),
    "a burial of fewer": changed_entry(HEALED, 0, data='{"put_back":1,"failed":0}'),
    "a burial by itself": changed_entry(HEALED, 0, source="self_healing"),
}


@pytest.mark.parametrize("name", BY_THE_FILE)
def test_acts_and_entries_that_do_not_agree_are_seen_by_the_file_alone(
    operated: tuple[History, Stored], name: str
) -> None:
    history, stored = deepcopy(operated)
    assert list(violations_of_file(stored)) == []
    BY_THE_FILE[name](history, stored)
    assert "audit" in {one.kind for one in violations_of_file(stored)}


def neither_act_nor_entry(history: History, stored: Stored) -> None:
    """The parking of t-8 was acknowledged and is gone, with all that tells of it."""
    without_event("task.parked")(history, stored)
    without_entry("task.park")(history, stored)


def unasked(verb: str) -> Spoil:
    def spoil(history: History, stored: Stored) -> None:
        history.calls.remove(call(history, verb))

    return spoil


def refused(verb: str) -> Spoil:
    def spoil(history: History, stored: Stored) -> None:
        call(history, verb).outcome = "refused"

    return spoil


def forced_in_vain(history: History, stored: Stored) -> None:
    stored.tasks["g-2"] = stored.tasks["g-2"]._replace(status="pending")


def cloned_by_nobody(history: History, stored: Stored) -> None:
    """One more clone of a task that has one on record."""
    clone = next(one for one in stored.tasks.values() if one.retry_of == "t-3")
    stored.tasks["another"] = clone._replace(id="another")


def a_holder_writes_on(history: History, stored: Stored) -> None:
    late = next(one for one in history.of("renew") if one.outcome == "refused")
    late.outcome, late.value = "done", True


WITH_THE_HISTORY: dict[str, tuple[Spoil, str]] = {
    "an act that was told and is lost": (neither_act_nor_entry, "lost"),
    "a force that nobody asked for": (unasked(FORCE), "phantom"),
    "a force that was refused": (refused(FORCE), "phantom"),
    "a death that nobody declared": (unasked(MARK_DEAD), "phantom"),
    "a failure that was told and is none": (forced_in_vain, "lost"),
    "a clone that is on nobody's record": (cloned_by_nobody, "unrecorded"),
    "a write by one whose task was forced": (a_holder_writes_on, "zombie"),
}


@pytest.mark.parametrize("name", WITH_THE_HISTORY)
def test_what_was_asked_of_operators_and_what_is_stored_are_held_against_each_other(
    operated: tuple[History, Stored], name: str
) -> None:
    history, stored = deepcopy(operated)
    assert violations(history, stored) == []
    spoil, kind = WITH_THE_HISTORY[name]
    spoil(history, stored)
    assert kind in {one.kind for one in violations(history, stored)}


@pytest.mark.parametrize("verb", [FORCE, FORCE_MANY, MARK_DEAD, "lock_force", "retry", "pause"])
def test_an_act_that_was_not_answered_may_have_happened(
    operated: tuple[History, Stored], verb: str
) -> None:
    history, stored = deepcopy(operated)
    unanswered = call(history, verb)
    unanswered.outcome = unanswered.value = unanswered.answered_at = None
    assert violations(history, stored) == []


def test_an_approval_that_is_not_on_record_is_seen(approved: tuple[History, Stored]) -> None:
    history, stored = deepcopy(approved)
    without_entry("task.approve", 1)(history, stored)
    assert {one.kind for one in violations(history, stored)} == {"audit", "lost"}
    assert call(history, APPROVE, 1).value == ["t-1", "t-2"]


@pytest.mark.parametrize(
    "spoil",
    [without_entry(RECOVERED), entered_twice(RECOVERED), changed_entry(RECOVERED, 0, run_id=99)],
)
def test_a_recovery_is_accounted_for_once(approved: tuple[History, Stored], spoil: Spoil) -> None:
    history, stored = deepcopy(approved)
    spoil(history, stored)
    assert "audit" in {one.kind for one in violations_of_file(stored)}
