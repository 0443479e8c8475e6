"""One caller enqueues one task after the other; each is durable before the next begins."""

from pathlib import Path

from bench import raw
from bench.load import KIND, PAYLOAD, PAYLOAD_TEXT, QUICK, Sizes, new_ids, per_second, timed
from bench.paired import Contestant, measure, ratio, typical
from bench.results import Row
from outlast import Outlast

WARM_UP = 100


def ours(count: int) -> Contestant:
    def enqueue(app: Outlast, number: int) -> None:
        for _ in range(number):
            app.enqueue(KIND, PAYLOAD)

    def contestant(folder: Path) -> float:
        with Outlast(folder / "work.db") as app:
            enqueue(app, WARM_UP)
            return count / timed(lambda: enqueue(app, count))

    return contestant


def bare(count: int) -> Contestant:
    def contestant(folder: Path) -> float:
        connection = raw.make_store(folder / "work.db")
        rows = raw.rows(new_ids(WARM_UP + count), KIND, PAYLOAD_TEXT)
        raw.add_singly(connection, rows[:WARM_UP])
        rest = rows[WARM_UP:]
        rate = count / timed(lambda: raw.add_singly(connection, rest))
        connection.close()
        return rate

    return contestant


def contestants(count: int) -> dict[str, Contestant]:
    return {"ours": ours(count), "raw": bare(count)}


def run(sizes: Sizes) -> list[Row]:
    rates = measure(contestants(sizes.singly), sizes.blocks, contestants(QUICK.singly))
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
