"""What all scenarios have in common: the payload, ids, sizes, and rates as text."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from outlast.tasks.ids import new_id

KIND = "ingest"
PAYLOAD = {
    "path": "incoming/2025/11/report-000123.pdf",
    "pages": 17,
    "language": "en",
    "owner": "alice",
    "number": 1234,
}
RESULT = {"pages": 17, "ok": True}
RESULT_TEXT = msgspec.json.encode(RESULT).decode()
PAYLOAD_TEXT = msgspec.json.encode(PAYLOAD).decode()


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; the full sizes are the ones that are published."""

    blocks: int = 5
    rounds: int = 3
    warm_seconds: float = 2.5
    singly: int = 3_000
    callers: int = 20_000
    bulk: int = 100_000
    working: int = 30_000
    processes: int = 40_000
    claims: int = 10_000
    finished: int = 1_000_000
    delayed: int = 100_000
    foreign: int = 100_000
    running: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    kills: int = 25
    workers: int = 1_000
    dead_workers: int = 100
    starts: int = 20
    peers: int = 2_000
    profiled: int = 2_000


FULL = Sizes()
QUICK = Sizes(
    blocks=3,
    rounds=1,
    warm_seconds=2.5,
    singly=600,
    callers=2_560,
    bulk=10_000,
    working=4_000,
    processes=4_000,
    claims=2_000,
    finished=20_000,
    delayed=2_000,
    foreign=2_000,
    running=(1_000, 10_000),
    kills=4,
    workers=200,
    dead_workers=20,
    starts=5,
    peers=300,
    profiled=400,
)


def new_ids(count: int) -> list[str]:
    return [new_id() for _ in range(count)]


def timed(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def per_second(rate: float) -> str:
    return f"{rate:,.0f}/s"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms"
