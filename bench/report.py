"""The report: figures become a table with verdicts in words, and the bad ones stay in it."""

from collections.abc import Iterable, Sequence

from bench.chart import chart
from bench.document import CHART, write_section
from bench.figures import Figures
from bench.results import Row

TITLE = "How fast"
PREFACE = """\
Written by `./run bench --write`. Everything is durable: WAL, `synchronous=FULL`, one synced commit
for each call, the transition log included. *Raw* is `bench/raw.py`: bare apsw with the same
columns, indexes and log rows, without any guard, given its ids and JSON ready-made. All contestants
of a scenario run in turn, in blocks of one or more rounds, in rotated order (singly: every 300
enqueues); the ratio is taken within each block. Shown are the median of five ratios and, as the
spread, the smallest and the largest. A ratio says how many times the yardstick's speed ours is;
where the bound says "at most", less is better.
"""


def verdict(row: Row) -> str:
    if reaches(row, row.aim):
        return "aim reached"
    if row.at_least is None:
        return ""
    return "reached" if reaches(row, row.at_least) else "**not reached**"


def reaches(row: Row, bound: float | None) -> bool:
    if bound is None:
        return False
    return row.ratio >= bound if row.higher_is_better else row.ratio <= bound


def number(value: float) -> str:
    """Three figures are all that the spread allows."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bound(row: Row) -> str:
    if row.at_least is None:
        return ""
    return number(row.at_least) if row.higher_is_better else f"at most {number(row.at_least)}"


def line(row: Row) -> str:
    spread = number(row.low) if row.low == row.high else f"{number(row.low)} to {number(row.high)}"
    what = row.what + (f" ({row.note})" if row.note else "")
    aim = "" if row.aim is None else number(row.aim)
    cells = (
        what, row.ours, row.yardstick, number(row.ratio), spread, bound(row), aim, verdict(row)
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def table(rows: Iterable[Row]) -> str:
    head = ("what", "ours", "yardstick", "ratio", "spread", "at least", "aim", "verdict")
    rule = "|---|---:|---:|---:|---:|---:|---:|---|"
    return "\n".join(["| " + " | ".join(head) + " |", rule, *map(line, rows)])


def misses(rows: Iterable[Row]) -> str:
    """What falls short, said once more in words."""
    missed = [row for row in rows if row.at_least is not None and not reaches(row, row.at_least)]
    short = [
        row
        for row in rows
        if row.aim is not None and not reaches(row, row.aim) and row not in missed
    ]
    sentences = [
        *(f"Not reached: {row.what}: {number(row.ratio)}, {wanted(row)}." for row in missed),
        *(f"Short of its aim: {row.what}: {number(row.ratio)} of {number(row.aim or 0)}."
          for row in short),
    ]  # fmt: skip
    return "\n".join(f"- {sentence}" for sentence in sentences) or "Every aim is reached."


def wanted(row: Row) -> str:
    word = "at least" if row.higher_is_better else "at most"
    return f"{word} {number(row.at_least or 0)} wanted"


def in_order(figures: Figures, order: Sequence[str]) -> list[Row]:
    return [row for name in order if name in figures for row in figures[name].rows]


def machines(figures: Figures, order: Sequence[str]) -> str:
    """One sentence for each machine, normally one, and the conditions of each scenario."""
    names: dict[str, list[str]] = {}
    for name in order:
        if name in figures:
            names.setdefault(figures[name].machine, []).append(name)
    sentences = [
        f"Measured on {machine}{': ' + ', '.join(of) if len(names) > 1 else ''}."
        for machine, of in names.items()
    ]
    met = "; ".join(f"{name} {figures[name].conditions}" for name in order if name in figures)
    sentences.append(
        "What appending a page and syncing it took, and the load average, when each scenario"
        f" began: {met}."
    )
    return "\n\n".join(sentences)


def body(figures: Figures, order: Sequence[str]) -> str:
    rows = in_order(figures, order)
    picture = "![How much of each aim is reached](benchmarks.svg)"
    parts = (PREFACE.strip(), machines(figures, order), picture, table(rows), misses(rows))
    return "\n\n".join(parts)


def write(figures: Figures, order: Sequence[str]) -> None:
    CHART.write_text(chart(in_order(figures, order)), encoding="utf-8")
    write_section(TITLE, body(figures, order))
