"""A hundred thousand tasks in one call and one transaction."""

from pathlib import Path

from bench import raw
from bench.load import KIND, PAYLOAD, PAYLOAD_TEXT, QUICK, Sizes, new_ids, timed
from bench.paired import Contestant, measure
from bench.results import Row, rated
from outlast import Outlast


def ours(count: int) -> Contestant:
    def contestant(folder: Path) -> float:
        payloads = [PAYLOAD | {"number": number} for number in range(count)]
        with Outlast(folder / "work.db") as app:
            return count / timed(lambda: app.enqueue_many(KIND, payloads))

    return contestant


def bare(count: int) -> Contestant:
    def contestant(folder: Path) -> float:
        rows = raw.bundled(raw.rows(new_ids(count), KIND, PAYLOAD_TEXT))
        connection = raw.make_store(folder / "work.db")
        rate = count / timed(lambda: raw.add_at_once(connection, rows))
        connection.close()
        return rate

    return contestant


def contestants(count: int) -> dict[str, Contestant]:
    return {"ours": ours(count), "raw": bare(count)}


def run(sizes: Sizes) -> list[Row]:
    warm_up = contestants(QUICK.bulk)
    rates = measure(contestants(sizes.bulk), sizes.blocks, warm_up, sizes.rounds)
    return [
        rated(
            f"enqueue_many, {sizes.bulk:,}",
            rates,
            "ours",
            "raw",
            named="raw bulk",
            at_least=0.7,
            aim=0.8,
            note="raw is given ids and JSON ready-made; ours makes, checks and sums both",
        )
    ]
