"""Killed and started again: by workers, and by programs that only claim and complete."""

from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_statuses

pytestmark = pytest.mark.slow


def _works_slowly(path: str) -> None:
    import time

    from outlast import Outlast
    from tests.support.childside import say

    app = Outlast(path)

    @app.task
    def work(n: int) -> int:
        time.sleep(0.002)
        say(n)
        return n * n

    app.worker(concurrency=2).run(until_empty=True)
    say("empty")


@pytest.mark.proves("REC-33")
def test_a_hundred_tasks_are_done_by_the_next_start_when_a_worker_is_killed(
    database: Path,
) -> None:
    with Outlast(database) as app:
        ids = app.enqueue_many("work", [{"n": n} for n in range(100)])
    with Child(_works_slowly, database) as child:
        for _ in range(30):
            child.hear()
        child.kill()
    before = foreign_statuses(database)
    assert set(before.values()) > {"completed"}, "it was killed in the middle"
    with Child(_works_slowly, database) as child:
        ran = child.hear_all()
        assert child.wait() == 0, child.error()
    assert ran[-1] == "empty"
    done_before = {n for n, one in enumerate(ids) if before[one] == "completed"}
    assert sorted(ran[:-1]) == sorted(set(range(100)) - done_before), "what was done stays done"
    with Outlast(database) as app:
        assert [app.get(one).result for one in ids] == [n * n for n in range(100)]
    assert_sound(database)


def _two_calls_are_enough(folder: str) -> None:
    """Plays a short program on each store, has it die at the nth point, and plays it again."""
    import os
    import sqlite3
    from pathlib import Path

    from outlast import Outlast, probes
    from tests.support.childside import die, hear, say

    def note(path: Path, what: str) -> None:
        with path.with_suffix(".log").open("a") as log:
            log.write(what + "\n")

    def work(path: Path) -> None:
        app = Outlast(path)
        while leases := app.claim("w"):
            note(path, f"begun {leases[0].task_id}")
            leases[0].complete({"done": leases[0].task_id})
            note(path, f"acknowledged {leases[0].task_id}")

    def life(path: Path, nth: int) -> int:
        passed = 0

        def count(name: str) -> None:
            nonlocal passed
            passed += 1
            if passed == nth:
                die()

        pid = os.fork()
        if pid == 0:
            probes.arm(count)
            work(path)
            os._exit(0 if nth else min(passed, 255))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def found(path: Path, query: str) -> list[object]:
        """By another SQLite, in this process, which has no store open."""
        connection = sqlite3.connect(path)
        rows = connection.execute(query).fetchall()
        connection.close()
        return rows

    while (order := hear()) is not None:
        name, nth, queries = order
        path = Path(folder) / name
        ends = [life(path, nth), life(path, 10_000)]
        say([ends, [found(path, query) for query in queries]])


TASKS = "SELECT id, status, result, attempt, recovery_count FROM tasks ORDER BY id"
ENDED = "SELECT count(*) FROM transitions WHERE to_status = 'completed'"
IDS = ["t0", "t1"]


@pytest.mark.proves("CLM-19")
def test_a_worker_of_two_calls_loses_nothing_wherever_it_is_killed(tmp_path: Path) -> None:
    """It claims and it completes, it never says goodbye, and it is killed at every point."""
    with Child(_two_calls_are_enough, tmp_path) as child:
        (passed, _), _ = play(child, tmp_path / "whole.db", 0)
        assert passed > 10, "the program passes that many points"
        for nth in range(1, passed + 1):
            database = tmp_path / f"{nth}.db"
            ends, (rows, ended) = play(child, database, nth)
            assert ends == [-9, 0]
            assert ended == [[2]]
            assert_all_is_done(rows, database.with_suffix(".log"))
        child.say(None)
    assert_sound(tmp_path / f"{passed}.db")


def play(child: Child, database: Path, nth: int) -> Any:
    with Outlast(database) as app:
        app.enqueue_many("work", range(2), id=IDS)
    child.say([database.name, nth, [TASKS, ENDED]])
    return child.hear()


def assert_all_is_done(rows: list[list[Any]], log_file: Path) -> None:
    done = [[one, "completed", f'{{"done":"{one}"}}'] for one in IDS]
    assert [row[:3] for row in rows] == done
    assert sum(row[4] for row in rows) <= 1, "one crash charges one task, once"
    log = log_file.read_text().splitlines()
    for task_id in IDS:
        after = log[log.index(f"begun {task_id}") :]
        if f"acknowledged {task_id}" in after:
            rest = after[after.index(f"acknowledged {task_id}") + 1 :]
            assert not [line for line in rest if task_id in line], "what is done is not run again"
