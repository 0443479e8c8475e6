"""One enqueue beside threads that burn CPU: each change of thread waits for the GIL."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.load import KIND, PAYLOAD, Sizes
from bench.machine import empty_folder
from bench.paired import summary
from bench.results import Row, at_most
from outlast import Outlast

# Twice what the thirteen mechanisms took that the committer thread replaced (ADR 18).
AT_MOST_MS = {1: 32, 2: 74}
CALLS = 60
WARMING = 20


@contextmanager
def burning(count: int) -> Iterator[None]:
    """So many threads that never give up the GIL by themselves."""
    is_over = threading.Event()

    def burn() -> None:
        while not is_over.is_set():
            pass

    threads = [threading.Thread(target=burn, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def enqueue_ms(app: Outlast) -> float:
    """How long half of the calls take at most."""
    taken: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        app.enqueue(KIND, PAYLOAD)
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)


def run(sizes: Sizes) -> list[Row]:
    found: dict[int, list[float]] = {count: [] for count in AT_MOST_MS}
    with empty_folder() as folder, Outlast(folder / "work.db") as app:
        for _ in range(WARMING):
            app.enqueue(KIND, PAYLOAD)
        for _ in range(sizes.blocks):
            for count, values in found.items():
                with burning(count):
                    values.append(enqueue_ms(app))
    return [row(count, values) for count, values in found.items()]


def row(count: int, values: list[float]) -> Row:
    result = summary(values)
    beside = "one thread that burns" if count == 1 else f"{count} threads that burn"
    what = f"one enqueue beside {beside} CPU, p50"
    bound = AT_MOST_MS[count]
    return at_most(what, f"{result.median:.1f} ms", result, bound, note="milliseconds")
