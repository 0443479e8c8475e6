"""Many processes heal and claim at once: each stale task is taken once, and by nobody twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast_lab.acting import SharedClock
from outlast_lab.actors import Actor, Company
from tests.support.foreign import assert_sound, foreign_rows

COUNT = 500
PROCESSES = 8


@pytest.fixture
def actors(tmp_path: Path) -> Iterator[list[Actor]]:
    """One that holds all tasks, and eight others, each in a process of its own."""
    SharedClock.make(tmp_path / "clock")
    with Company() as company:
        made = [company.actor() for _ in range(PROCESSES + 1)]
        for number, actor in enumerate(made):
            record = str(tmp_path / f"{number}.jsonl")
            store, clock = str(tmp_path / "work.db"), str(tmp_path / "clock")
            assert actor.ask("opens", store, f"w{number}", record, {}, clock)[0] == "done"
        ids = [f"t{n}" for n in range(COUNT)]
        assert made[0].ask("does", "enqueue_many", ids, [None] * COUNT)[0] == "done"
        assert len(made[0].ask("hands", "claim", {"limit": COUNT, "lease": "10s"})) == COUNT
        yield made


@pytest.mark.proves("HEAL-13")
@pytest.mark.parametrize("end", ["silence", "death"])
def test_healers_and_claimers_take_each_stale_task_once(
    tmp_path: Path, actors: list[Actor], end: str
) -> None:
    holder, *others = actors
    if end == "death":
        holder.kill()
    else:
        SharedClock(tmp_path / "clock").advance(10)
    healers, claimers = others[::2], others[1::2]
    for healer, claimer in zip(healers, claimers, strict=True):
        healer.tell("does", "heal")
        claimer.tell("hands", "claim", {"limit": 100, "lease": "1h"})
    handed = [one for claimer in claimers for one in claimer.answer()]
    assert all(healer.answer()[0] == "done" for healer in healers)
    ids = [task_id for _, task_id, *_ in handed]
    assert len(ids) == len(set(ids))
    assert {attempt for *_, attempt in handed} <= {2}
    database = tmp_path / "work.db"
    counted = "SELECT count(*), min(recovery_count), max(recovery_count) FROM tasks"
    assert foreign_rows(database, counted) == [[COUNT, 1, 1]]
    put_back = "SELECT count(*) FROM transitions WHERE actor = 'system/recovery'"
    assert foreign_rows(database, put_back) == [[COUNT]]
    running = "SELECT id FROM tasks WHERE status = 'running' ORDER BY id"
    assert foreign_rows(database, running) == [[task_id] for task_id in sorted(ids)]
    deaths = "SELECT count(*) FROM events WHERE kind = 'worker.dead'"
    assert foreign_rows(database, deaths) == [[1 if end == "death" else 0]]
    assert_sound(database)
