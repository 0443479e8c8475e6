import time
from pathlib import Path

import apsw
import pytest

from bench import breakdown, watch
from bench.breakdown import Breakdown, Part
from outlast.store.sqlite.statements import union_of


def test_statements_are_called_by_the_files_they_stand_in_or_are_made_from() -> None:
    for text, name in breakdown.NAMES.items():
        assert breakdown.name_of(text) == name
    for name in ("ready_by_kind", "ready_by_group_kind"):
        assert breakdown.name_of(union_of(name, 3)) == f"{name}.sql"
    assert breakdown.name_of("BEGIN\n   IMMEDIATE") == "BEGIN IMMEDIATE"


def test_the_parts_make_up_the_whole() -> None:
    found = Breakdown("one enqueue", 100.0, 60.0, [Part("COMMIT", 15.0)], [Part("f", 25.0)])
    assert (found.sqlite_us, found.python_us) == (15.0, 25.0)
    text = breakdown.table(found)
    assert "### One enqueue: 100.0 µs" in text
    assert "| **Python** | 25.00 | 25.0% |" in text
    assert "| · `COMMIT` | 15.00 | 15.0% |" in text


def test_a_real_breakdown_adds_up() -> None:
    case = breakdown.Case(
        "an enqueue", lambda app: None, lambda app: app.enqueue_many("k", [None] * 200), 200
    )
    found = breakdown.take_apart(case)
    whole = found.disk_us + found.sqlite_us + found.python_us
    assert whole == pytest.approx(found.total_us, rel=0.01)
    assert {part.name for part in found.statements} >= {"COMMIT", "BEGIN IMMEDIATE"}


def test_the_next_limit_is_the_largest_part() -> None:
    disk = Breakdown("one enqueue", 100.0, 60.0, [Part("COMMIT", 15.0)], [Part("f", 25.0)])
    assert "60% is waiting for the disk" in breakdown.next_limit(disk)
    assert "2.5 times as fast" in breakdown.next_limit(disk)
    python = Breakdown("a task", 100.0, 10.0, [Part("COMMIT", 15.0)], [Part("f.py: g", 75.0)])
    assert "75% is Python, most of it in `f.py: g`" in breakdown.next_limit(python)


def test_a_watched_connection_tells_of_every_statement(tmp_path: Path) -> None:
    noted: list[str] = []
    with watch.connections(lambda sql, seconds: noted.append(sql)):
        connection = apsw.Connection(str(tmp_path / "f.db"))
    connection.execute("CREATE TABLE t (a)")
    connection.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
    connection.close()
    assert noted == ["CREATE TABLE t (a)", *["INSERT INTO t VALUES (?)"] * 2]
    assert not apsw.connection_hooks


def test_the_longest_lock_is_from_begin_to_commit_and_flushes_count_apart() -> None:
    locks = watch.Locks()
    locks.note("BEGIN IMMEDIATE", 0.0)
    before = time.perf_counter()
    locks.note("UPDATE t SET a = 1", 0.0)
    locks.note("ROLLBACK TO s", 0.0)
    assert locks.longest == 0
    locks.note("COMMIT", 0.0)
    assert 0 < locks.longest <= time.perf_counter() - before + 0.01
    longest = locks.longest
    locks.note("PRAGMA wal_checkpoint(PASSIVE)", 5.0)
    locks.note("PRAGMA wal_checkpoint(TRUNCATE)", 2.0)
    assert (locks.longest, locks.longest_flush, locks.flushing) == (longest, 5.0, 7.0)
