"""Where the time of one enqueue, and of one task claimed and completed by hundreds, goes.

The same work runs with every statement timed, synced and unsynced in turns: what a commit takes
longer when it is synced is the disk's share, what passes outside of statements is Python's. A run
under the profiler divides Python's share among functions.
"""

import cProfile
import pstats
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench import watch
from bench.document import write_section
from bench.load import KIND, PAYLOAD, Sizes, timed
from bench.machine import empty_folder
from bench.scenarios.working import fill, work_off
from outlast import Outlast, Settings
from outlast.store.sqlite.statements import FOLDERS

TITLE = "Where the time goes"
NEXT = "What the next limit is"
RUNS = 3
SHOWN = 12
NEGLIGIBLE = 0.004

Work = Callable[[Outlast], object]
Synchronous = Literal["full", "normal"]


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the time of one operation."""

    name: str
    us: float


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One operation's time: the whole, the disk, SQLite by statement, Python by function."""

    what: str
    total_us: float
    disk_us: float
    statements: list[Part]
    functions: list[Part]

    @property
    def sqlite_us(self) -> float:
        return sum(part.us for part in self.statements)

    @property
    def python_us(self) -> float:
        return sum(part.us for part in self.functions)


@dataclass(frozen=True, slots=True)
class Case:
    """Something to take apart: what is prepared, what is measured, over how many operations."""

    what: str
    prepare: Work
    work: Work
    count: int


def cases(sizes: Sizes) -> list[Case]:
    def enqueue(app: Outlast) -> None:
        for _ in range(sizes.profiled):
            app.enqueue(KIND, PAYLOAD)

    payloads = [PAYLOAD | {"number": number} for number in range(sizes.bulk)]
    return [
        Case("one enqueue", lambda app: app.enqueue(KIND, PAYLOAD), enqueue, sizes.profiled),
        Case(
            "one task claimed and completed by hundreds",
            lambda app: fill(app, sizes.working),
            work_off,
            sizes.working,
        ),
        Case(
            "one task of enqueue_many",
            lambda app: app.enqueue(KIND, PAYLOAD),
            lambda app: app.enqueue_many(KIND, payloads),
            sizes.bulk,
        ),
    ]


@dataclass(frozen=True, slots=True)
class Watched:
    """Microseconds of one operation, in all and by statement, without those of watching."""

    total_us: float
    by_statement: dict[str, float]


def take_apart(case: Case) -> Breakdown:
    runs = [(watched(case, "full"), watched(case, "normal")) for _ in range(RUNS)]
    synced, unsynced = (min(kind, key=lambda run: run.total_us) for kind in zip(*runs, strict=True))
    commit = synced.by_statement.get("COMMIT", 0.0)
    disk = max(commit - unsynced.by_statement.get("COMMIT", 0.0), 0.0)
    statements = synced.by_statement | {"COMMIT": commit - disk}
    in_sqlite = sum(synced.by_statement.values())
    total = max(synced.total_us, in_sqlite)
    divided = functions(case, total - in_sqlite)
    return Breakdown(case.what, total, disk, largest_first(statements), divided)


def watched(case: Case, synchronous: Synchronous) -> Watched:
    noted, added = watch.Statements(), watch.overhead()
    found: dict[str, float] = {}

    def measure(work: Callable[[], object]) -> float:
        noted.clear()
        seconds = timed(work) - added.whole * sum(noted.times.values())
        for text, spent in noted.seconds.items():
            name = name_of(text)
            own = max(spent - added.noted * noted.times[text], 0.0)
            found[name] = found.get(name, 0.0) + own / case.count * 1e6
        return seconds

    with empty_folder() as folder, watch.connections(noted.note):
        seconds = on_store(case, folder, synchronous, measure)
    return Watched(seconds / case.count * 1e6, found)


def on_store(
    case: Case,
    folder: Path,
    synchronous: Synchronous,
    measure: Callable[[Callable[[], object]], float],
) -> float:
    with Outlast(folder / "work.db", settings=Settings(synchronous=synchronous)) as app:
        case.prepare(app)
        return measure(lambda: case.work(app))


def name_of(text: str) -> str:
    """A statement by the file it stands in or was made from, or else by its beginning."""
    return NAMES.get(text) or BEGINNINGS.get(text[:ENOUGH]) or " ".join(text.split())[:50]


NAMES = {
    file.read_text(encoding="utf-8"): file.name
    for folder in FOLDERS
    for file in folder.glob("*/*.sql")
}
# Some statements are made from their file by repeating a part of it, never the beginning.
ENOUGH = 90
BEGINNINGS = {text[:ENOUGH]: name for text, name in NAMES.items() if len(text) > ENOUGH}


def functions(case: Case, python_us: float) -> list[Part]:
    """Python's share by function: its own time under the profiler, brought to the true whole."""
    profile = cProfile.Profile()
    with empty_folder() as folder:
        on_store(case, folder, "full", lambda work: timed(lambda: profile.runcall(work)))
    own: dict[str, float] = {}
    for (file, line, name), (_, _, spent, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if "apsw" not in name:
            label = label_of(file, line, name)
            own[label] = own.get(label, 0.0) + spent
    whole = sum(own.values())
    return largest_first({label: spent / whole * python_us for label, spent in own.items()})


def label_of(file: str, line: int, name: str) -> str:
    if file == "~":
        plain = re.sub(r" at 0x[0-9a-f]+", "", name.strip("<>").replace("|", "/"))
        return plain.replace("built-in method ", "")
    _, inside, rest = file.rpartition("outlast/")
    return f"{rest if inside else Path(file).name}: {name}"


def largest_first(parts: dict[str, float]) -> list[Part]:
    return sorted((Part(name, us) for name, us in parts.items()), key=lambda part: -part.us)


def table(found: Breakdown) -> str:
    def line(name: str, us: float) -> str:
        return f"| {name} | {us:.2f} | {us / found.total_us:.1%} |"

    def shown(parts: list[Part]) -> list[Part]:
        return [part for part in parts if part.us > NEGLIGIBLE * found.total_us][:SHOWN]

    return "\n".join(
        [
            f"### {found.what[0].upper()}{found.what[1:]}: {found.total_us:,.1f} µs",
            "",
            "| part | µs | share |",
            "|---|---:|---:|",
            line("**the disk** (what COMMIT takes longer when synced)", found.disk_us),
            line("**SQLite**", found.sqlite_us),
            *(line(f"· `{part.name}`", part.us) for part in shown(found.statements)),
            line("**Python**", found.python_us),
            *(line(f"· `{part.name}`", part.us) for part in shown(found.functions)),
        ]
    )


ADVICE = {
    "the disk": "waiting for the disk, which a faster disk shortens, or callers that share a sync",
    "SQLite": "SQLite at work, most of it in `{statement}`",
    "Python": "Python, most of it in `{function}`",
}


def next_limit(found: Breakdown) -> str:
    shares = {"the disk": found.disk_us, "SQLite": found.sqlite_us, "Python": found.python_us}
    largest = max(shares, key=lambda name: shares[name])
    said = ADVICE[largest].format(
        statement=found.statements[0].name if found.statements else "",
        function=found.functions[0].name if found.functions else "",
    )
    rest = ", ".join(
        f"{us / found.total_us:.0%} {name}" for name, us in shares.items() if name != largest
    )
    without = found.total_us / max(found.total_us - shares[largest], 0.001)
    what = found.what[0].upper() + found.what[1:]
    return (
        f"- {what}: {shares[largest] / found.total_us:.0%} is {said};"
        f" the rest is {rest}. Without it the same work would run {without:.1f} times as fast."
    )


def main(sizes: Sizes, write: bool) -> None:
    found = [take_apart(case) for case in cases(sizes)]
    body = "\n\n".join(table(one) for one in found)
    limits = "\n".join(next_limit(one) for one in found)
    print(f"{body}\n\n{limits}")
    if write:
        preface = "Written by `./run bench profile --write`: microseconds of one operation."
        write_section(TITLE, f"{preface}\n\n{body}")
        write_section(NEXT, limits)
