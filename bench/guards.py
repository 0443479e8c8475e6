"""What each guard of the schema costs: the flow with all of them, and with one taken out.

Our own .sql files run on a schema made by our own migrations, edited in one place. Processor time
counts, and nothing is synced: a disk would hide in its waits what a guard adds to every row.
"""

import gc
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import apsw

from bench import document
from outlast.clock import Instant
from outlast.store.new_tasks import NewTask
from outlast.store.ops.enqueue import INLINE_BYTES
from outlast.store.sqlite import migrate
from outlast.store.sqlite.connect import connect
from outlast.store.sqlite.transaction import SqliteTransaction
from outlast.store.transaction import Row, Values, chunks

TASKS = 2_000
BATCH = 100
ROUNDS = 5
TURNS = 2

NOW = Instant(1_800_000_000_000, 1_000_000)

Edit = Callable[[str], str]


class Halves(NamedTuple):
    """A figure for each half of the flow."""

    insert: float
    drain: float


def unchanged(schema: str) -> str:
    return schema


def without_check(name: str) -> Edit:
    """Take a named constraint out of its table, parentheses and all."""

    def edit(schema: str) -> str:
        start = schema.index(f"CONSTRAINT {name} CHECK (")
        end = schema.index("(", start) + 1
        depth = 1
        while depth:
            depth += {"(": 1, ")": -1}.get(schema[end], 0)
            end += 1
        before, after = schema[:start].rstrip(), schema[end:].lstrip()
        before = re.sub(r"\n\s*--[^\n]*$", "", before, flags=re.MULTILINE)
        if after.startswith(","):
            return before + after[1:]
        return before.removesuffix(",") + after

    return edit


def without_trigger(name: str) -> Edit:
    return lambda schema: re.sub(
        rf"CREATE TRIGGER {name} .*?\nEND;\n", "", schema, count=1, flags=re.DOTALL
    )


def without_index(name: str) -> Edit:
    """Take an index out."""
    return lambda schema: re.sub(
        rf"CREATE (UNIQUE )?INDEX {name} .*?;\n", "", schema, flags=re.DOTALL
    )


def without_strict(schema: str) -> str:
    return schema.replace(") STRICT, WITHOUT ROWID;", ") WITHOUT ROWID;").replace(") STRICT;", ");")


def all_of(*edits: Edit) -> Edit:
    def edit(schema: str) -> str:
        for one in edits:
            schema = one(schema)
        return schema

    return edit


CHECKS = ("task_is_whole", "task_budgets")
TRIGGERS = ("check_work_items_status", "update_work_items_timestamp")
# The one index missing here is the one a claim walks: without it there is no flow to measure.
INDEXES = (
    "idx_tasks_ready_by_kind",
    "idx_tasks_ready_by_group",
    "idx_tasks_ready_by_group_kind",
    "idx_tasks_due",
    "idx_tasks_parked",
    "idx_work_items_lease_expiry",
    "idx_work_items_lease_holder",
    "idx_work_items_task",
    "idx_jobs_status_updated",
    "idx_transitions_task",
)
NOTHING = "nothing (the noise of the measurement)"
NO_FOREIGN_KEYS = "foreign keys"

VARIANTS: Mapping[str, Edit] = {
    NOTHING: unchanged,
    **{f"CHECK {name}": without_check(name) for name in CHECKS},
    **{f"trigger {name}": without_trigger(name) for name in TRIGGERS},
    NO_FOREIGN_KEYS: unchanged,
    "STRICT": without_strict,
    **{f"index {name}": without_index(name) for name in INDEXES},
    "both checks and both triggers": all_of(
        *(without_check(name) for name in CHECKS), *(without_trigger(name) for name in TRIGGERS)
    ),
}


def schema_text() -> str:
    return "\n".join(step.text for step in migrate.all_migrations())


def make_store(path: Path, name: str) -> apsw.Connection:
    """A file with the edited schema; an edit that finds nothing to take out is an error."""
    schema = VARIANTS[name](schema_text())
    if schema == schema_text() and name not in (NOTHING, NO_FOREIGN_KEYS):
        raise ValueError(f"the schema has no {name!r} any more; correct the list of guards")
    path.touch()
    connection = connect(path, "normal")
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "OFF")
    for statement in migrate.split_statements(schema):
        connection.execute(statement)
    if name == NO_FOREIGN_KEYS:
        connection.pragma("foreign_keys", "OFF")
    return connection


def new_rows() -> list[Row]:
    task = NewTask("", "k", "default", 0, None, '{"number":1}', 12345, 3, 3, None, NOW.utc_ms)
    return [(f"018f-{number:08d}", *task[1:]) for number in range(TASKS)]


def insert(tx: SqliteTransaction, rows: list[Row]) -> None:
    tx.connection.execute("BEGIN IMMEDIATE")
    for part in chunks(len(rows)):
        tx.run_rows_at_once("add_tasks", rows[part], (INLINE_BYTES,))
    tx.connection.execute("COMMIT")


def register(tx: SqliteTransaction) -> int:
    host = {"host": "h", "boot_id": "b", "pid": 1, "pid_started": 1, "pid_namespace": "n"}
    file = {"incarnation": "i", "name": "w", "lock_file": "f", "lock_inode": 1}
    return int(tx.value("register_worker", host | file | {"now": 1, "mono": 1, "oom_kills": None}))


def drain(tx: SqliteTransaction, holder: int) -> None:
    """Claim a hundred, complete a hundred, until nothing is left; each in a transaction."""
    claiming = {
        "holder": holder, "worker": "w", "token_floor": 0, "unstarted": 0, "lease_ms": 300_000,
        "now": NOW.utc_ms + 5, "mono": NOW.mono_ms,
    }  # fmt: skip
    completing = {
        "from": "running", "to": "completed", "actor": "worker", "reason": "completed",
        "attempt": 0, "retry_count": 0, "recovery_count": 0, "crashes_in_row": 0, "error": None,
        "parked": None,
        "not_before": None, "is_final": 1, "now": NOW.utc_ms + 9,
        "exit_signal": None, "peak_memory_bytes": None, "run_id": None,
    }  # fmt: skip
    while seqs := claim(tx, claiming):
        tx.connection.execute("BEGIN IMMEDIATE")
        tx.rows("situations", {"seqs": tx.ids(seqs)})
        tx.run("log_moves", completing | {"seqs": tx.ids(seqs)})
        tx.run("move_tasks", completing | {"seqs": tx.ids(seqs)})
        tx.connection.execute("COMMIT")


def claim(tx: SqliteTransaction, terms: Values) -> list[int]:
    tx.connection.execute("BEGIN IMMEDIATE")
    seqs = [row[0] for row in tx.rows("ready_any", {"queue": "default", "limit": BATCH})]
    if seqs:
        tx.rows("candidates", {"seqs": tx.ids(seqs)})
        tx.run("claim_tasks", terms | {"seqs": tx.ids(seqs)})
        logged = {"seqs": tx.ids(seqs), "actor": "worker", "reason": "claimed"}
        tx.run("log_claims", logged)
    tx.connection.execute("COMMIT")
    return seqs


def measure(folder: Path, name: str) -> Halves:
    """One block: a new file, a bulk insert, and the drain of it."""
    path = folder / "work.db"
    connection = make_store(path, name)
    tx = SqliteTransaction(connection)
    holder = register(tx)
    rows = new_rows()
    gc.collect()
    began = time.process_time()
    insert(tx, rows)
    inserted = time.process_time()
    drain(tx, holder)
    drained = time.process_time()
    done = connection.execute("SELECT count(*) FROM tasks WHERE status = 'completed'").get
    assert done == TASKS, f"{name}: {done} of {TASKS} tasks were completed"
    connection.close()
    for file in folder.iterdir():
        file.unlink()
    return Halves(inserted - began, drained - inserted)


def best_of_turns(folder: Path, *names: str) -> list[Halves]:
    """Blocks in turns, so that all of them meet the same disturbances; the best of each."""
    turns = [[measure(folder, name) for name in names] for _ in range(TURNS)]
    return [Halves(*map(min, zip(*blocks, strict=True))) for blocks in zip(*turns, strict=True)]


def run() -> tuple[Halves, dict[str, Halves]]:
    """The time with all guards on, and the share of it that each one takes."""
    times: list[Halves] = []
    shares: dict[str, list[Halves]] = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        measure(Path(folder), NOTHING)
        for _ in range(ROUNDS):
            for name in VARIANTS:
                on, without = best_of_turns(Path(folder), NOTHING, name)
                times.append(on)
                shares[name].append(
                    Halves(1 - without.insert / on.insert, 1 - without.drain / on.drain)
                )
    return median(times), {name: median(rounds) for name, rounds in shares.items()}


def median(rounds: list[Halves]) -> Halves:
    return Halves(*map(statistics.median, zip(*rounds, strict=True)))


def table(on: Halves, shares: dict[str, Halves]) -> str:
    insert_us, drain_us = (seconds / TASKS * 1e6 for seconds in on)
    lines = [
        "| guard | of a bulk insert | of claim and complete by hundreds |",
        "|---|---:|---:|",
        f"| all of the time | {insert_us:.2f} µs a task | {drain_us:.2f} µs a task |",
    ]
    lines += [
        f"| {name} | {share.insert:+.1%} | {share.drain:+.1%} |" for name, share in shares.items()
    ]
    return "\n".join(lines)


PREFACE = f"""\
What each guard of the schema costs, as its share of the time with all of them on. Measured by
`./run bench guards`: our own statements, blocks of {TASKS:,} tasks with and without the guard in
turns, the median of {ROUNDS} ratios; processor time, without syncing.
"""


with_section = document.with_section


def main(write: bool) -> None:
    found = table(*run())
    print(found)
    if write:
        document.write_section("The cost of each guard", f"{PREFACE}\n{found}")
