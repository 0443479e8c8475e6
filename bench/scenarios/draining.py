"""A worker with default settings drains tasks that do nothing; plain functions, then async ones."""

from pathlib import Path
from typing import Any

import apsw

from bench.load import KIND, PAYLOAD, QUICK, Sizes
from bench.paired import Contestant, Rates, measure
from bench.results import Row, rated
from bench.scenarios.against import installed
from bench.scenarios.working import bare
from outlast import Outlast

WARM_UP = 200


def worker_on(path: Path, is_async: bool) -> Outlast:
    app = Outlast(path)

    async def nothing_soon(path: str, pages: int, language: str, owner: str, number: int) -> None:
        pass

    def nothing(path: str, pages: int, language: str, owner: str, number: int) -> None:
        pass

    app.task(name=KIND)(nothing_soon if is_async else nothing)
    return app


def drain(app: Outlast, count: int) -> None:
    app.enqueue_many(KIND, (PAYLOAD for _ in range(count)), chunked=True)
    done = app.worker().run(until_empty=True).completed
    assert done == count, f"{done} of {count} tasks were completed"


def seconds_of(path: Path, after: int = 0) -> float:
    """From the first claim to the last completion, by the log; of the tasks after the first."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows: list[Any] = connection.execute(
        "SELECT (SELECT min(at) FROM transitions WHERE to_status = 'running' AND task_seq > ?1),"
        " (SELECT max(at) FROM transitions WHERE to_status = 'completed' AND task_seq > ?1)"
        " FROM (SELECT 1)",
        (after,),
    ).fetchall()
    connection.close()
    began_ms, ended_ms = rows[0]
    return float(ended_ms - began_ms) / 1e3


def ours(count: int, is_async: bool = False) -> Contestant:
    def contestant(folder: Path) -> float:
        path = folder / "work.db"
        with worker_on(path, is_async) as app:
            drain(app, WARM_UP)
            drain(app, count)
        return count / seconds_of(path, WARM_UP)

    return contestant


def run(sizes: Sizes) -> list[Row]:
    count = sizes.working
    contestants = {"plain": ours(count), "raw": bare(count), "async": ours(count, True)}
    huey = installed().get("huey")
    if huey is not None:
        contestants["huey"] = lambda folder: huey.consume(folder, sizes.peers)
    rates = measure(contestants, sizes.blocks, {"plain": ours(QUICK.working)})
    rows = [
        row(rates, "a worker drains no-op tasks", "plain", "raw", (0.65, 0.8)),
        row(rates, "the same with async functions", "async", "plain", (0.7, 0.9)),
    ]
    if huey is not None:
        what = f"a worker drains no-op tasks, against huey {huey.version()}"
        rows.append(row(rates, what, "plain", "huey", (12.0, 15.0)))
    return rows


def row(rates: Rates, what: str, of: str, to: str, bounds: tuple[float, float]) -> Row:
    return rated(what, rates, of, to, at_least=bounds[0], aim=bounds[1])
