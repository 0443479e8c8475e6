"""What `outlast health` looks at, one thing after the other, and what it thinks of each."""

import os
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from outlast.cli.output import text
from outlast.errors import SchemaError, SchemaNewer, StoreError, StoreNotFound

if TYPE_CHECKING:
    from outlast import LeaseFigures, LockInfo, Outlast, RecoveryStatus, Subscriber, WorkerInfo

NO_ROOM_BYTES = 1 << 20
FAR_BEHIND = 100_000
NAMED = 3


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


def concerns(app: "Outlast", wal_limit_bytes: int) -> Iterator[Concern]:
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
    yield from _of_the_rest(app, wal_limit_bytes)


def _of_the_rest(app: "Outlast", wal_limit_bytes: int) -> Iterator[Concern]:
    """Each by itself: what is damaged in the file must not hide what is not."""
    status, workers = cache(app.recovery_status), cache(app.workers)
    looks: dict[str, Callable[[], Concern]] = {
        "integrity": lambda: integrity(status()),
        "disk": lambda: disk(_free_bytes(app.path), wal_limit_bytes),
        "wal": lambda: wal(_size_of(f"{app.path}-wal"), wal_limit_bytes),
        "leases": lambda: leases(app.leases()),
        "locks": lambda: locks(app.locks()),
        "recovery": lambda: recovery(status(), workers()),
        "workers": lambda: working(workers()),
        "queues": lambda: queues(app.paused_queues()),
        "subscribers": lambda: subscribers(app.subscribers()),
    }
    for name, look in looks.items():
        try:
            found = look()
        except StoreError as error:
            found = Concern(name, Grade.FAILED, str(error))
        yield found


def integrity(status: "RecoveryStatus") -> Concern:
    """What the last check of the file said, as far as the runs on record tell."""
    last = status.last
    if last is None:
        return Concern("integrity", Grade.OK, "no start is on record yet")
    checked = last.integrity_after if last.integrity_after.passed else last.integrity
    verdicts = (last.integrity, last.integrity_after)
    damage = [error for one in verdicts if one.verdict == "FAILED" for error in one.errors]
    at = text.stamp(last.completed_at)
    if damage or any(one.verdict == "FAILED" for one in verdicts):
        said = "; ".join(damage[:NAMED]) or "without details"
        detail = f"run {last.run_id} of {at} found damage: {said}; restore a backup"
        return Concern("integrity", Grade.FAILED, detail)
    why = f" ({checked.reason})" if checked.reason else ""
    return Concern("integrity", Grade.OK, f"{checked.verdict}{why} at the last start, {at}")


def disk(free_bytes: int | None, wal_limit_bytes: int) -> Concern:
    """Whether there is room for what is written next, and for a log of full length."""
    if free_bytes is None:
        return Concern("disk", Grade.DEGRADED, "how much room is left cannot be told")
    detail = f"{text.size(free_bytes)} are free"
    if free_bytes < NO_ROOM_BYTES:
        return Concern("disk", Grade.FAILED, f"{detail}: nothing can be stored; make room")
    if free_bytes < wal_limit_bytes:
        limit = text.size(wal_limit_bytes)
        return Concern("disk", Grade.DEGRADED, f"{detail}, less than the log may need ({limit})")
    return Concern("disk", Grade.OK, detail)


def wal(wal_bytes: int, wal_limit_bytes: int) -> Concern:
    """Whether the log is flushed as it should be."""
    is_long = wal_bytes > wal_limit_bytes
    detail = f"the log holds {text.size(wal_bytes)} of {text.size(wal_limit_bytes)}"
    advice = "; a reader or a stopped process keeps it from being flushed" if is_long else ""
    return Concern("wal", Grade.DEGRADED if is_long else Grade.OK, detail + advice)


def leases(found: "LeaseFigures") -> Concern:
    """Whether leases wait for somebody to take them back."""
    detail = f"{text.count(found.active, 'lease')} out"
    if found.ran_out:
        ran_out = f"{text.count(found.ran_out, 'lease')} ran out and nobody took the work back"
        return Concern("leases", Grade.DEGRADED, f"{detail}; {ran_out}: is any worker running?")
    return Concern("leases", Grade.OK, f"{detail}, none ran out")


def locks(found: Sequence["LockInfo"]) -> Concern:
    """Whether named locks were left behind."""
    left = [one for one in found if one.state != "held"]
    held = f"{text.count(len(found) - len(left), 'lock')} held"
    if not left:
        return Concern("locks", Grade.OK, held)
    names = _some([f"{one.name} of {one.holder} is {one.state}" for one in left])
    return Concern("locks", Grade.DEGRADED, f"{held}; {names}; whoever asks for it gets it")


def recovery(status: "RecoveryStatus", workers: Sequence["WorkerInfo"]) -> Concern:
    """Whether recovery is on, what waits for it or for a person, and how the last run went."""
    died = [
        f"worker {one.name} (pid {one.pid}) died with {text.count(one.task_count, 'task')}"
        for one in workers
        if one.state == "dead" and one.task_count
    ]
    parts = text.few(died, NAMED)
    if status.mode == "off":
        left = ", and there is something to recover" if status.is_due else ""
        parts.append(f"RECOVERY IS SWITCHED OFF{left}")
    elif status.is_due:
        parts.append("recovery is due and runs when the store is next opened to serve")
    if status.held_tasks:
        parts.append(f"{text.count(status.held_tasks, 'recovered task')} held for approval")
    if status.left_alone:
        named = _some(status.left_alone_ids, status.left_alone)
        parts.append(f"{text.count(status.left_alone, 'orphan')} left alone by policy: {named}")
    suspects = [one for one in status.suspects if one.status in ("pending", "running")]
    if suspects:
        lost = _some([f"{one.task_id} ({one.recoveries} times)" for one in suspects])
        parts.append(f"lost again and again: {lost}")
    last = status.last
    if last is not None and not last.was_successful():
        parts.append(f"run {last.run_id} met errors: outlast queue recovery-report shows them")
    if parts:
        return Concern("recovery", Grade.DEGRADED, "; ".join(parts))
    ran = "" if last is None else f"; the last run was {last.run_id}, {text.stamp(last.started_at)}"
    return Concern("recovery", Grade.OK, f"nothing is to be recovered{ran}")


def working(workers: Sequence["WorkerInfo"]) -> Concern:
    """Whether workers are heard of, and their handlers stop when they are told to."""
    alive = [one for one in workers if one.state in ("alive", "stale")]
    parts = [f"{text.count(len(alive), 'worker')} alive"]
    # One that claims by hand beats only if its program says so: its silence means nothing.
    stale = [one for one in alive if one.state == "stale" and one.serves is not None]
    silent = [
        f"{one.name} (pid {one.pid}) silent for {text.span(one.silent_seconds)}" for one in stale
    ]
    stuck = [
        f"a handler of task {handler.task_id} ({handler.kind}) does not stop"
        for one in alive
        for handler in one.stuck
    ]
    parts += [*text.few(silent, NAMED), *text.few(stuck, NAMED)]
    return Concern("workers", Grade.DEGRADED if stale or stuck else Grade.OK, "; ".join(parts))


def queues(paused: Sequence[str]) -> Concern:
    """Which queues somebody has stopped on purpose: to be seen, not to be mended."""
    detail = f"paused: {_some(list(paused))}" if paused else "none is paused"
    return Concern("queues", Grade.OK, detail)


def subscribers(found: Sequence["Subscriber"]) -> Concern:
    """Whether those who want to be told of everything are."""
    lapsed = [f"{one.name} has lapsed and will miss events" for one in found if one.has_lapsed]
    behind = [
        f"{one.name} is {one.behind:,} events behind"
        for one in found
        if not one.has_lapsed and one.behind > FAR_BEHIND
    ]
    detail = "; ".join([text.count(len(found), "subscriber"), *text.few(lapsed + behind, NAMED)])
    return Concern("subscribers", Grade.DEGRADED if lapsed or behind else Grade.OK, detail)


def _some(texts: Sequence[str], total: int | None = None) -> str:
    return ", ".join(text.few(texts, NAMED, total))


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _free_bytes(path: "os.PathLike[str]") -> int | None:
    """What an ordinary user may still write where the store lies."""
    try:
        found = os.statvfs(os.path.dirname(os.path.realpath(path)))
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
