"""Times, sizes and timelines as people read them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from outlast import Checkpoint, Move, Status, Task
from outlast.cli.output.text import age, count, cut, moment, size, span, stamp, width_of
from outlast.cli.output.timeline import CHECKPOINTS_SHOWN, timeline
from outlast.cli.output.views import Lines, Table, View, plain

START = datetime(2027, 1, 15, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0ms"),
        (0.0354, "35ms"),
        (0.9996, "1s"),
        (1.25, "1.2s"),
        (59.96, "1m"),
        (61, "1m 1s"),
        (3600, "1h"),
        (3661, "1h 1m"),
        (90_061, "1d 1h"),
        (86_400 + 59, "1d"),
        (-5, "-5s"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_sizes_and_counts_read_well() -> None:
    assert [size(n) for n in (0, 1023, 1024, 5 << 20, 3 << 40, 5 << 50)] == [
        "0 B", "1023 B", "1.0 KiB", "5.0 MiB", "3.0 TiB", "5120.0 TiB",
    ]  # fmt: skip
    assert (count(1, "task"), count(1234, "task")) == ("1 task", "1,234 tasks")
    assert (cut("abcdef", 4), cut("abcd", 4)) == ("abc…", "abcd")


def test_moments_are_utc_whatever_the_zone() -> None:
    east = START.astimezone(timezone(timedelta(hours=5))) + timedelta(milliseconds=7)
    assert stamp(east) == "2027-01-15T08:00:00.007Z"
    assert (stamp(None), moment(None), age(None, START)) == ("", None, "")


def test_wide_letters_keep_the_columns_straight() -> None:
    assert (width_of("日本"), width_of("ab"), width_of("e\u0301")) == (4, 2, 1)
    rows = [("日本", "1"), ("ab", "22")]
    lines = plain(View(None, [Table(("name", "n"), rows, numbers=frozenset({"n"}))])).splitlines()
    assert lines == ["NAME   N", "日本   1", "ab    22"]


def test_a_table_without_rows_says_so_under_its_title() -> None:
    empty = Table(("id",), [], title="tasks", empty="No tasks.")
    assert plain(View(None, [empty, Lines(["end"])])) == "tasks\nNo tasks.\n\nend"


def _move(seconds: float, start: Status, end: Status, **more: object) -> Move:
    values = {
        "at": START + timedelta(seconds=seconds), "from_status": start, "to_status": end,
        "actor": "worker", "reason": "claimed", "attempt": 1, "token": 1, "worker": "w1",
        "error": None,
    }  # fmt: skip
    return Move(**(values | more))  # type: ignore[arg-type]


def _checkpoint(number: int, seconds: float) -> Checkpoint:
    at = START + timedelta(seconds=seconds)
    return Checkpoint(f"c{number}", "t1", None, "iteration_end", number, 1, {}, None, at)


def test_a_timeline_interleaves_moves_and_checkpoints_and_tells_how_a_process_ended() -> None:
    task = Task("t1", "index", "default", created_at=START)
    pending, running, failed = Status.PENDING, Status.RUNNING, Status.FAILED
    moves = [
        _move(2, pending, running),
        _move(
            9, running, pending, reason="retry", error="MemoryError: too big\n  in work (a.py:1)",
            exit_signal=9, peak_memory_bytes=84 << 20,
        ),
        _move(10, pending, running, attempt=2),
        _move(12, running, failed, actor="user", worker=None, reason="failed_by_operator"),
    ]  # fmt: skip
    assert timeline(task, moves, [_checkpoint(1, 3)]) == [
        "        0  ○ created 2027-01-15T08:00:00.000Z",
        "       2s  ▶ running, attempt 1, by w1",
        "       3s  · checkpoint 1, iteration_end",
        "       9s  ↺ pending again: retry, by w1 (signal 9, peak memory 84.0 MiB)",
        "           │   MemoryError: too big",
        "      10s  ▶ running, attempt 2, by w1",
        "      12s  ✗ failed: failed by operator, by user",
    ]


def test_of_many_checkpoints_the_newest_are_drawn_and_the_rest_counted() -> None:
    task = Task("t1", "index", "default", created_at=START)
    lines = timeline(task, [], [_checkpoint(n, n) for n in range(1, 51)])
    assert len(lines) == CHECKPOINTS_SHOWN + 2
    assert "30 earlier checkpoints not shown" in lines[1]
    assert "checkpoint 50" in lines[-1]
