"""A hundred thousand tasks in one call and one transaction."""

from pathlib import Path

from bench import raw
from bench.load import KIND, PAYLOAD, PAYLOAD_TEXT, QUICK, Sizes, new_ids, per_second, timed
from bench.paired import Contestant, measure, ratio, typical
from bench.results import Row
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
    found = ratio(rates, "ours", "raw")
    return [
        Row(
            what=f"enqueue_many, {sizes.bulk:,}",
            ours=per_second(typical(rates, "ours")),
            yardstick=f"raw bulk: {per_second(typical(rates, 'raw'))}",
            ratio=found.median,
            low=found.low,
            high=found.high,
            at_least=0.7,
            aim=0.8,
            note="raw is given ids and JSON ready-made; ours makes, checks and sums both",
        )
    ]
