"""Claims in a store full of rows that no claim may touch, against claims in an empty one."""

import time
from collections.abc import Callable
from pathlib import Path

from bench.filling import DELAYED, PENDING, Filler
from bench.load import PAYLOAD, PAYLOAD_TEXT, Sizes
from bench.machine import empty_folder
from bench.paired import Contestant, measure
from bench.results import Row, rated
from outlast import Outlast

MINE = "mine"
BATCH = 100
WARM_UP = 5


def crowd(path: Path, sizes: Sizes) -> None:
    Outlast(path).open().close()
    filler = Filler(path, PAYLOAD_TEXT, time.time_ns() // 1_000_000)
    filler.add_finished(sizes.finished, MINE)
    filler.add(DELAYED, sizes.delayed, kind=MINE)
    filler.add(PENDING, sizes.foreign, kind="foreign")
    filler.close()


def claims(count: int, place: Callable[[Path], Path]) -> Contestant:
    """The rate of claiming alone, by hundreds; completing is not on the clock."""

    def contestant(folder: Path) -> float:
        spent = 0.0
        with Outlast(place(folder)) as app:
            app.enqueue_many(MINE, [PAYLOAD] * (count + WARM_UP * BATCH))
            for number in range(WARM_UP + count // BATCH):
                began = time.perf_counter()
                leases = app.claim("w", limit=BATCH, kinds=[MINE])
                if number >= WARM_UP:
                    spent += time.perf_counter() - began
                assert len(leases) == BATCH
                app.complete_many([(lease, None) for lease in leases])
        return count / spent

    return contestant


def run(sizes: Sizes) -> list[Row]:
    with empty_folder() as place:
        crowd(place / "work.db", sizes)
        contestants = {
            "crowded": claims(sizes.claims, lambda _: place / "work.db"),
            "empty": claims(sizes.claims, lambda folder: folder / "work.db"),
        }
        rates = measure(contestants, sizes.blocks, contestants)
    return [
        rated(
            f"claim with {sizes.finished:,} finished, {sizes.delayed:,} delayed,"
            f" {sizes.foreign:,} foreign-kind rows",
            rates,
            "crowded",
            "empty",
            named="empty store",
            at_least=0.8,
            aim=0.95,
            note="by hundreds, narrowed to one kind; completing is not counted",
        )
    ]
