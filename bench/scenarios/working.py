"""Claim a hundred, complete a hundred, through the public interface and without a handler."""

from pathlib import Path
from typing import Any

from bench import raw
from bench.load import (
    KIND,
    PAYLOAD,
    PAYLOAD_TEXT,
    QUICK,
    RESULT,
    RESULT_TEXT,
    Sizes,
    new_ids,
    timed,
)
from bench.paired import Contestant, Rates, measure
from bench.results import Row, rated
from outlast import Outlast

BATCH = 100


def fill(app: Outlast, count: int) -> None:
    app.enqueue_many(KIND, (PAYLOAD for _ in range(count)), chunked=True)


def work_off(app: Outlast, result: Any = None) -> int:
    """How many tasks there were; a claim and its completion are durable one after the other."""
    done = 0
    while leases := app.claim("w", limit=BATCH):
        done += sum(app.complete_many([(lease, result) for lease in leases]))
    return done


def ours(count: int, result: Any = None) -> Contestant:
    def contestant(folder: Path) -> float:
        with Outlast(folder / "work.db") as app:
            fill(app, BATCH)
            work_off(app, result)
            fill(app, count)
            seconds = timed(lambda: work_off(app, result))
            done = app.counts()["completed"]
        assert done == BATCH + count, f"{done} of {BATCH + count} tasks were completed"
        return count / seconds

    return contestant


def bare(count: int, result: str | None = None) -> Contestant:
    def contestant(folder: Path) -> float:
        connection = raw.make_store(folder / "work.db")
        rows = raw.rows(new_ids(BATCH + count), KIND, PAYLOAD_TEXT)
        raw.add_at_once(connection, raw.bundled(rows[:BATCH]))
        raw.work_off(connection, result)
        raw.add_at_once(connection, raw.bundled(rows[BATCH:]))
        rate = count / timed(lambda: raw.work_off(connection, result))
        connection.close()
        return rate

    return contestant


def contestants(count: int) -> dict[str, Contestant]:
    return {
        "ours": ours(count),
        "raw": bare(count),
        "ours, results": ours(count, RESULT),
        "raw, results": bare(count, RESULT_TEXT),
    }


def run(sizes: Sizes) -> list[Row]:
    rates = measure(contestants(sizes.working), sizes.blocks, contestants(QUICK.working))
    return [
        row(rates, "claim + complete by hundreds, no handler", ""),
        row(rates, "the same, each task with a result", ", results"),
    ]


def row(rates: Rates, what: str, kind: str) -> Row:
    of, to = f"ours{kind}", f"raw{kind}"
    return rated(what, rates, of, to, named="raw", at_least=0.55, aim=0.7)
