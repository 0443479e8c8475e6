"""One caller enqueues one task after the other; each is durable before the next begins.

What counts is the speed of a store in use, so both contestants run until they are: a commit that
makes the log file longer takes twice as long as one that writes over an older part of it, and our
own check of the files trusts their folder's times only when they are two seconds old. Then they
take turns every few hundred enqueues, for a shared machine's speed changes within a second.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import raw
from bench.load import KIND, PAYLOAD, PAYLOAD_TEXT, QUICK, Sizes, new_ids, timed
from bench.machine import empty_folder
from bench.paired import Contestant, rotated
from bench.results import Row, rated
from outlast import Outlast

WARM_UP = 500
SLICE = 300

# Enqueues so many, and says how many seconds that took.
Caller = Callable[[int], float]


@contextmanager
def our_caller(folder: Path) -> Iterator[Caller]:
    with Outlast(folder / "work.db") as app:

        def add(number: int) -> None:
            for _ in range(number):
                app.enqueue(KIND, PAYLOAD)

        yield lambda number: timed(lambda: add(number))


@contextmanager
def bare_caller(folder: Path) -> Iterator[Caller]:
    connection = raw.make_store(folder / "work.db")

    def add(number: int) -> float:
        rows = raw.rows(new_ids(number), KIND, PAYLOAD_TEXT)
        return timed(lambda: raw.add_singly(connection, rows))

    yield add
    connection.close()


def warm_up(seconds: float, add: Caller) -> None:
    until = time.monotonic() + seconds
    add(WARM_UP)
    while time.monotonic() < until:
        add(WARM_UP)


def ours(count: int, warm_seconds: float = 0) -> Contestant:
    def contestant(folder: Path) -> float:
        with our_caller(folder) as add:
            warm_up(warm_seconds, add)
            return count / add(count)

    return contestant


def bare(count: int, warm_seconds: float = 0) -> Contestant:
    def contestant(folder: Path) -> float:
        with bare_caller(folder) as add:
            warm_up(warm_seconds, add)
            return count / add(count)

    return contestant


def block(count: int, warm_seconds: float) -> dict[str, float]:
    """The rates of both, slice by slice in turn."""
    with (
        empty_folder() as one,
        empty_folder() as other,
        our_caller(one) as our_add,
        bare_caller(other) as bare_add,
    ):
        callers: dict[str, Caller] = {"ours": our_add, "raw": bare_add}
        for add in callers.values():
            warm_up(warm_seconds, add)
        gc.collect()
        seconds = dict.fromkeys(callers, 0.0)
        slices = max(count // SLICE, 1)
        for number in range(slices):
            for name in rotated(list(callers), number):
                seconds[name] += callers[name](min(count, SLICE))
    return {name: slices * min(count, SLICE) / seconds[name] for name in callers}


def run(sizes: Sizes) -> list[Row]:
    block(QUICK.singly, 0)
    blocks = [block(sizes.rounds * sizes.singly, sizes.warm_seconds) for _ in range(sizes.blocks)]
    rates = {name: [one[name] for one in blocks] for name in ("ours", "raw")}
    what = "enqueue one by one, one caller"
    return [rated(what, rates, "ours", "raw", at_least=0.65, aim=0.95)]
