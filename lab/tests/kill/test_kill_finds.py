"""The kill experiment can fail: defects planted into a copy are found, each by one case."""

from pathlib import Path
from typing import NamedTuple

import pytest

from lab.tests.planted import planted
from outlast_lab.experiments.kill.judging import overcharged, troubles_of_going_on, unfair
from outlast_lab.experiments.kill.stage import Rehearsal
from outlast_lab.experiments.kill.state import state_of
from outlast_lab.experiments.kill.sweep import differences
from outlast_lab.judge.foreign_reader import copied_stored
from outlast_lab.record.history import History
from outlast_lab.record.scenarios import founded
from outlast_lab.record.set_clock import SetClock


class Defect(NamedTuple):
    """A text in a place, what stands in its place, and the case that must find it."""

    place: str
    find: str
    replace: str
    case: str
    complaint: str


PLANTED = {
    "a move and its record are two transactions": Defect(
        "_move_set",
        '    probe("settle.logged")\n',
        '    tx.control("COMMIT")\n    tx.control("BEGIN IMMEDIATE")\n    probe("settle.logged")\n',
        "probe settle/settle.logged#1",
        "instead of what was committed",
    ),
    "a migration is committed statement by statement": Defect(
        "apply",
        '            probe("migrate.statement")\n',
        '            probe("migrate.statement")\n'
        '            connection.execute("COMMIT")\n'
        '            connection.execute("BEGIN IMMEDIATE")\n',
        "probe migrate/migrate.statement#5",
        "instead of what was committed",
    ),
    "the start of a task taken ahead is not noted": Defect(
        "OwnPresence.note",
        "return self._incarnation is not None and self._incarnation.lock_file.note(grant)",
        "return self._incarnation is not None",
        "random recovery 1",
        "was held by prefetch and was charged 0",
    ),
    "tasks that were only taken ahead are charged": Defect(
        "loss",
        "if task.unstarted and begun.whole and",
        "if task.unstarted and not begun.whole and",
        "random recovery 1",
        "was held by prefetch and was charged 1",
    ),
    "a dead worker is declared before its last task is taken back": Defect(
        "OrphanBatch.__call__",
        "        if self.is_last:\n            self._query.last(tx, moved)",
        "        if len(self.found) == self._size or self.is_last:\n"
        "            self._query.last(tx, moved)",
        "probe start/heal.committed#1",
        "who is dead",
    ),
    "a marker decides whether there is anything to recover": Defect(
        "_Run._heal",
        "        if not session.settings.recovers:\n            for name",
        # Its own marker is that of a process that lives; what the file's rows tell is not asked.
        "        from outlast.store.sqlite.side_folder.session_marker import how_it_was_left\n\n"
        "        engine = self._store.engine\n"
        "        told = how_it_was_left(engine._folder, engine._marker.workspace)\n"
        "        if not session.settings.recovers or told.stop != 'unclean':\n"
        "            for name",
        "probe start/heal.begun#6",
        "which is not how recovery ends",
    ),
    "a call that there was no memory for is taken for done": Defect(
        "_run_one",
        "        member.error = explain(error, member.context)\n",
        "        member.error = explain(error, member.context)\n"
        '        if "out of memory" in str(member.error):\n            member.error = None\n',
        "memory engine settle/1000 KiB",
        "surprise",
    ),
}


@pytest.mark.parametrize("defect", PLANTED.values(), ids=PLANTED)
def test_a_planted_defect_is_found(tmp_path: Path, defect: Defect) -> None:
    change = (defect.find, defect.replace)
    told = planted(tmp_path, defect.place, change, "kill", defect.case)
    (experiment,) = told["experiments"]
    assert experiment["violations"]
    assert any(defect.complaint in one["what"] for one in experiment["violations"])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store in good order that nobody has open."""
    path = tmp_path / "work.db"
    founded(path, lambda line: None)
    return path


def test_a_row_more_or_less_than_was_committed_is_a_difference(store: Path) -> None:
    whole = state_of(store)
    assert list(differences(Rehearsal(["p"], [whole], []), store, "p", 1)) == []
    for rows in ([], [*(whole["tasks"] or []), [99]]):
        other = Rehearsal(["p"], [whole | {"tasks": rows}], [])
        assert list(differences(other, store, "p", 1)) != []


def test_a_task_that_recovery_charges_without_a_holder_is_told(store: Path) -> None:
    found, then = copied_stored(store), copied_stored(store)
    assert list(overcharged(found, then)) == []
    then.tasks["t-3"] = then.tasks["t-3"]._replace(recovery_count=1)
    assert list(overcharged(found, then)) == ["t-3 was pending and was charged 1 recoveries"]


def test_a_task_that_was_final_and_is_something_else_after_going_on_is_told(store: Path) -> None:
    found = copied_stored(store)
    found.tasks["t-3"] = found.tasks["t-3"]._replace(status="cancelled")
    found.tasks["t-99"] = found.tasks["t-3"]._replace(id="t-99")
    told = troubles_of_going_on(store, found, SetClock(2))
    assert "t-3 was cancelled and is completed" in told
    assert "recovery lost ['t-99']" in told


def test_nobody_is_unfairly_charged_when_nothing_was_held(store: Path) -> None:
    assert list(unfair(History(), copied_stored(store), copied_stored(store))) == []
