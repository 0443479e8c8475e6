"""One caller enqueues one task after the other; each is durable before the next begins.

What counts is the speed of a store in use, so both contestants run until they are: a commit that
makes the log file longer takes twice as long as one that writes over an older part of it, and our
own check of the files trusts their folder's times only when they are two seconds old.
"""

import time
from collections.abc import Callable
from pathlib import Path

from bench import raw
from bench.load import KIND, PAYLOAD, PAYLOAD_TEXT, QUICK, Sizes, new_ids, per_second, timed
from bench.paired import Contestant, measure, ratio, typical
from bench.results import Row
from outlast import Outlast

WARM_UP = 500


def warm_up(seconds: float, add: Callable[[int], None]) -> None:
    until = time.monotonic() + seconds
    add(WARM_UP)
    while time.monotonic() < until:
        add(WARM_UP)


def ours(count: int, warm_seconds: float = 0) -> Contestant:
    def contestant(folder: Path) -> float:
        with Outlast(folder / "work.db") as app:

            def add(number: int) -> None:
                for _ in range(number):
                    app.enqueue(KIND, PAYLOAD)

            warm_up(warm_seconds, add)
            return count / timed(lambda: add(count))

    return contestant


def bare(count: int, warm_seconds: float = 0) -> Contestant:
    def contestant(folder: Path) -> float:
        connection = raw.make_store(folder / "work.db")

        def add(number: int) -> None:
            raw.add_singly(connection, raw.rows(new_ids(number), KIND, PAYLOAD_TEXT))

        warm_up(warm_seconds, add)
        rows = raw.rows(new_ids(count), KIND, PAYLOAD_TEXT)
        rate = count / timed(lambda: raw.add_singly(connection, rows))
        connection.close()
        return rate

    return contestant


def contestants(count: int, warm_seconds: float) -> dict[str, Contestant]:
    return {"ours": ours(count, warm_seconds), "raw": bare(count, warm_seconds)}


def run(sizes: Sizes) -> list[Row]:
    measured = contestants(sizes.singly, sizes.warm_seconds)
    rates = measure(measured, sizes.blocks, contestants(QUICK.singly, 0))
    found = ratio(rates, "ours", "raw")
    return [
        Row(
            what="enqueue one by one, one caller",
            ours=per_second(typical(rates, "ours")),
            yardstick=f"raw: {per_second(typical(rates, 'raw'))}",
            ratio=found.median,
            low=found.low,
            high=found.high,
            at_least=0.75,
            aim=0.95,
        )
    ]
