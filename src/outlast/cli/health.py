"""`outlast health`: one line for each concern, and the worst of them as the exit code."""

import os
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import click

from outlast.cli import text
from outlast.cli.stores import chosen, loaded
from outlast.cli.verbs import Common, Verb, with_common
from outlast.cli.views import Table, View, show
from outlast.errors import SchemaError, SchemaNewer, StoreError, StoreNotFound

if TYPE_CHECKING:
    from outlast import Outlast, WorkerInfo

LEASES_LOOKED_AT = 10_000


class Grade(IntEnum):
    """How bad it is; also the exit code."""

    OK = 0
    DEGRADED = 1
    FAILED = 2


class Concern(NamedTuple):
    """One thing that was looked at."""

    name: str
    grade: Grade
    detail: str


@click.command("health", cls=Verb)
@with_common
def health(common: Common) -> int:
    """Say whether the store is well.

    Exit codes: 0 ok, 1 degraded, 2 failed.
    """
    app = chosen(common)
    try:
        concerns = list(_concerns(app, loaded(common).settings.wal_limit_bytes))
    finally:
        app.close()
    worst = max(one.grade for one in concerns)
    data = {
        "status": worst.name.lower(),
        "concerns": [
            {"name": one.name, "status": one.grade.name.lower(), "detail": one.detail}
            for one in concerns
        ],
    }
    rows = [(one.grade.name.lower(), one.name, one.detail) for one in concerns]
    show(common, View(data, [Table(("status", "concern", "detail"), rows)]))
    return int(worst)


def _concerns(app: "Outlast", wal_limit_bytes: int) -> Iterator[Concern]:
    """What is known, in the order in which one thing rests on the other."""
    try:
        if not os.path.lexists(app.path):
            raise StoreNotFound(f"there is no store at {app.path}; enqueue something first")
        schema = app.schema()
        counts = app.counts()
    except SchemaError as error:
        newer = isinstance(error, SchemaNewer)
        yield Concern("schema", Grade.FAILED if newer else Grade.DEGRADED, str(error))
        return
    except StoreError as error:
        yield Concern("store", Grade.FAILED, str(error))
        return
    tasks = ", ".join(f"{number:,} {status}" for status, number in counts.items() if number)
    yield Concern("store", Grade.OK, f"{app.path} can be read; {tasks or 'no tasks'}")
    yield Concern("schema", Grade.OK, f"version {schema.version} is current")
    yield _log(app, wal_limit_bytes)
    workers = app.workers()
    yield _recovery(app, workers)
    yield _workers(workers)


def _log(app: "Outlast", wal_limit_bytes: int) -> Concern:
    try:
        wal_bytes = os.stat(f"{app.path}-wal").st_size
    except FileNotFoundError:
        wal_bytes = 0
    is_long = wal_bytes > wal_limit_bytes
    detail = f"the log holds {text.size(wal_bytes)} of {text.size(wal_limit_bytes)}"
    advice = "; a reader or a stopped process keeps it from being flushed" if is_long else ""
    return Concern("log", Grade.DEGRADED if is_long else Grade.OK, detail + advice)


def _recovery(app: "Outlast", workers: list["WorkerInfo"]) -> Concern:
    dead = [one for one in workers if one.state == "dead" and one.task_count]
    now = text.now()
    running = app.tasks("running", limit=LEASES_LOOKED_AT)
    held_by_dead = {task_id for one in dead for task_id in one.task_ids}
    ran_out = sum(
        task.lease_expires_at is not None
        and task.lease_expires_at < now
        and task.id not in held_by_dead
        for task in running
    )
    if not dead and not ran_out:
        return Concern("recovery", Grade.OK, "nothing is to be recovered")
    parts = [
        f"worker {one.name} (pid {one.pid}) died with {text.count(one.task_count, 'task')}"
        for one in dead
    ]
    parts += [f"{text.count(ran_out, 'lease')} ran out"] if ran_out else []
    due = "recovery is due and runs when the store is next opened to serve"
    return Concern("recovery", Grade.DEGRADED, f"{', '.join(parts)}; {due}")


def _workers(workers: list["WorkerInfo"]) -> Concern:
    alive = [one for one in workers if one.state in ("alive", "stale")]
    parts = [f"{text.count(len(alive), 'worker')} alive"]
    # One that claims by hand beats only if its program says so: its silence means nothing.
    stale = [one for one in alive if one.state == "stale" and one.serves is not None]
    parts += [
        f"{one.name} (pid {one.pid}) silent for {text.span(one.silent_seconds)}" for one in stale
    ]
    stuck = [handler for one in alive for handler in one.stuck]
    parts += [f"a handler of task {one.task_id} ({one.kind}) does not stop" for one in stuck]
    return Concern("workers", Grade.DEGRADED if stale or stuck else Grade.OK, "; ".join(parts))
