"""Many callers at once, threads or coroutines; each call returns only when its task is durable."""

import asyncio
import threading
import time
from pathlib import Path

from bench.load import KIND, PAYLOAD, QUICK, Sizes
from bench.paired import Contestant, Rates, measure
from bench.results import Row, rated
from bench.scenarios.singly import bare
from outlast import AsyncOutlast, Outlast

THREADS = 64
COROUTINES = 256


def by_threads(count: int) -> Contestant:
    """All threads stand ready before the clock starts."""
    share = max(count // THREADS, 1)
    warming = max(share // 10, 1)

    def contestant(folder: Path) -> float:
        with Outlast(folder / "work.db") as app:
            ready = threading.Barrier(THREADS + 1)

            def caller() -> None:
                for _ in range(warming):
                    app.enqueue(KIND, PAYLOAD)
                ready.wait()
                for _ in range(share):
                    app.enqueue(KIND, PAYLOAD)

            threads = [threading.Thread(target=caller) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            ready.wait()
            began = time.perf_counter()
            for thread in threads:
                thread.join()
            rate = share * THREADS / (time.perf_counter() - began)
            expect(app, THREADS * (share + warming))
            return rate

    return contestant


def by_coroutines(count: int) -> Contestant:
    share = max(count // COROUTINES, 1)
    warming = max(share // 10, 1)

    async def callers(path: Path) -> float:
        async with AsyncOutlast(path) as app:

            async def caller(number: int) -> None:
                for _ in range(number):
                    await app.enqueue(KIND, PAYLOAD)

            async def all_of_them(number: int) -> None:
                await asyncio.gather(*(caller(number) for _ in range(COROUTINES)))

            await all_of_them(warming)
            began = time.perf_counter()
            await all_of_them(share)
            return share * COROUTINES / (time.perf_counter() - began)

    def contestant(folder: Path) -> float:
        rate = asyncio.run(callers(folder / "work.db"))
        with Outlast(folder / "work.db") as app:
            expect(app, COROUTINES * (share + warming))
        return rate

    return contestant


def expect(app: Outlast, number: int) -> None:
    stored = app.counts()["pending"]
    assert stored == number, f"{stored} tasks are stored, {number} were acknowledged"


def contestants(count: int, singly: int) -> dict[str, Contestant]:
    return {
        "raw": bare(singly),
        "threads": by_threads(count),
        "coroutines": by_coroutines(2 * count),
    }


def run(sizes: Sizes) -> list[Row]:
    warm_up = contestants(QUICK.callers, QUICK.singly)
    measured = contestants(sizes.callers, sizes.singly)
    rates = measure(measured, sizes.blocks, warm_up, sizes.rounds)
    return [
        row(rates, "threads", f"enqueue from {THREADS} threads", 3, 4),
        row(rates, "coroutines", f"enqueue from {COROUTINES} coroutines", 11, 15),
    ]


def row(rates: Rates, name: str, what: str, at_least: float, aim: float) -> Row:
    what = f"{what}, each durable on return"
    return rated(what, rates, name, "raw", named="raw singly", at_least=at_least, aim=aim)
