"""The invariants that the file alone shows: no damage, every task in one state, whole."""

import hashlib
import zlib
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple

from outlast_lab.judge import audit_rules, recovery_rules, replay
from outlast_lab.judge.event_rules import stream_faults
from outlast_lab.judge.foreign_reader import Stored, StoredCheckpoint, StoredKey, StoredTask


class Violation(NamedTuple):
    """A promise that was broken: which, for which task, and how."""

    kind: str
    task_id: str
    detail: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.kind}: {self.task_id} {self.detail}"


def violations_of_file(stored: Stored) -> Iterator[Violation]:
    """integrity_check and foreign_key_check of a foreign reader; every task in one state, whole."""
    for name, rows in stored.faults.items():
        yield Violation("damage", "", f"{name}: {rows[:3]}")
    keys = {key.task_id: key for key in stored.keys.values()}
    for task in stored.tasks.values():
        records = _torn_records(task, stored.checkpoints.get(task.id, []), keys.get(task.id))
        for detail in chain(_torn(task), records):
            yield Violation("torn", task.id, detail)
        for kind, detail in replay.objections(task, stored.moves.get(task.id, [])):
            yield Violation(kind, task.id, detail)
        for detail in replay.objections_to_budget(
            task, stored.moves.get(task.id, []), stored.checkpoints.get(task.id, [])
        ):
            yield Violation("counters", task.id, detail)
    for task_id in (set(stored.moves) | set(stored.checkpoints)) - set(stored.tasks):
        yield Violation("torn", task_id, "has moves or checkpoints and is not there")
    yield from _of_the_records(stored)


def _of_the_records(stored: Stored) -> Iterator[Violation]:
    """What the stream, recovery's own record and the audit say, against the rest."""
    for fault in stream_faults(stored):
        yield Violation("stream", "", fault)
    for kind, task_id, detail in recovery_rules.objections(stored):
        yield Violation(kind, task_id, detail)
    for task_id, detail in audit_rules.objections(stored):
        yield Violation("audit", task_id, detail)


def _torn(task: StoredTask) -> Iterator[str]:
    is_held = task.status == "running"
    if is_held != (task.holder is not None) or is_held != (task.worker_id is not None):
        yield f"is {task.status} and held by {task.worker_id}"
    if zlib.crc32(f"{task.id}\0{task.kind}\0{task.payload}".encode()) != task.payload_sum:
        yield "has a payload that is not the one that was stored"
    if (task.payload_bytes > 0) != (task.payload is not None):
        yield "has lost its payload, or found one"
    if (task.result_bytes > 0) != (task.result is not None):
        yield "has lost its result, or found one"
    if task.status == "completed" and task.result_sum is not None:
        if zlib.crc32(f"{task.id}\0{task.result}".encode()) != task.result_sum:
            yield "has a result that is not the one that was stored"
    elif task.result is not None:
        yield f"is {task.status} and has a result"


def _torn_records(
    task: StoredTask, checkpoints: list[StoredCheckpoint], key: StoredKey | None
) -> Iterator[str]:
    numbers = [one.number for one in checkpoints]
    if any(later != earlier + 1 for earlier, later in pairwise(numbers)):
        yield f"has checkpoints numbered {numbers}"
    for one in checkpoints:
        if one.sum != "sha256:" + hashlib.sha256(one.data.encode()).hexdigest():
            yield f"has a checkpoint {one.number} that is not the one that was stored"
    if key is not None:
        is_over = task.status in replay.FINAL
        wanted = ("completed" if task.status == "completed" else "failed") if is_over else "pending"
        if key.status != wanted:
            yield f"is {task.status} and its key {key.key!r} is {key.status}"
