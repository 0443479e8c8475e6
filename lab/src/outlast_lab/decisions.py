"""The invariants of all that is decided or noted beside a task's moves, once it was acknowledged.

Operators' decisions, parking and pausing, checkpoints, idempotency keys, and what resolve() said.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from outlast_lab.acts import APPROVE, FORCING, may_concern
from outlast_lab.history import Call, History
from outlast_lab.replay import FINAL
from outlast_lab.stored import Stored
from outlast_lab.wholeness import Violation
from outlast_lab.writes import Writes

Noted = tuple[str, str]


class Decisions:
    """Holds what was acknowledged against what the store says."""

    def __init__(self, history: History, stored: Stored, writes: Writes) -> None:
        self._history = history
        self._stored = stored
        self._writes = writes

    def all(self) -> Iterator[Violation]:
        """Every decision that was lost."""
        yield from self._operators()
        yield from self._resolved()
        yield from self._parked()
        yield from self._paused()
        yield from self._checkpoints()
        yield from self._keys()
        yield from self._runs()

    def _operators(self) -> Iterator[Violation]:
        for verb, status in (("cancel", "cancelled"), ("fail_task", "failed")):
            for call in self._history.of(verb):
                (task_id,) = call.arguments["ids"]
                task = self._stored.tasks.get(task_id)
                if call.is_done and call.value and task is not None and task.status != status:
                    yield Violation("lost", task_id, f"{call} and it is {task.status}")

    def _resolved(self) -> Iterator[Violation]:
        """What resolve() said is true."""
        for call in self._history.of("resolve"):
            (task_id,) = call.arguments["ids"]
            is_there = task_id in self._stored.tasks
            is_true = (call.value is not None) == is_there
            if call.is_done and not is_true and not self._is_changed_after(task_id, call):
                yield Violation("lost", task_id, f"{call} and it is there: {is_there}")

    def _is_changed_after(self, task_id: str, resolved: Call) -> bool:
        return any(
            call.asked_at > resolved.asked_at and call.may_have_happened
            and (call.verb == "take" or task_id in call.arguments["ids"])
            for call in self._history.of("enqueue", "enqueue_many", "take")
        )  # fmt: skip

    def _parked(self) -> Iterator[Violation]:
        """What was parked last, and moved by nobody since, is parked."""
        by_task: dict[str, list[Call]] = defaultdict(list)
        for call in self._history.of("park", "park_task", "unpark_task"):
            by_task[call.arguments["ids"][0]].append(call)
        for task_id, calls in by_task.items():
            last, task = _last(calls), self._stored.tasks.get(task_id)
            if last is None or not last.value or last.verb == "unpark_task" or task is None:
                continue
            is_moved = last.verb == "park" and task.token != last.arguments["token"]
            is_moved |= self._may_be_let_go(task_id, last)
            if task.status == "pending" and task.parked is None and not is_moved:
                yield Violation("lost", task_id, f"{last} and it is not parked")

    def _may_be_let_go(self, task_id: str, parked: Call) -> bool:
        """Whether somebody may have forced or approved it since."""
        return any(
            may_concern(call, task_id) and (call.answered_at or parked.asked_at) >= parked.asked_at
            for call in self._history.of(APPROVE, *FORCING)
        )

    def _paused(self) -> Iterator[Violation]:
        by_queue: dict[str, list[Call]] = defaultdict(list)
        for call in self._history.of("pause", "unpause"):
            by_queue[call.arguments["queue"]].append(call)
        for queue, calls in by_queue.items():
            last = _last(calls)
            if last is not None and (last.verb == "pause") != (queue in self._stored.paused):
                yield Violation("lost", "", f"{last} and {queue!r} is the other way")

    def _checkpoints(self) -> Iterator[Violation]:
        """As many as were acknowledged, and no more than were asked for; trimmed, the last one."""
        done: dict[str, list[Call]] = defaultdict(list)
        asked: dict[str, Counter[Noted]] = defaultdict(Counter)
        for call in self._history.of("checkpoint"):
            task_id = call.arguments["ids"][0]
            asked[task_id][_noted(call)] += call.may_have_happened
            if call.is_done:
                done[task_id].append(call)
        trimmed = {
            call.arguments["ids"][0]
            for call in self._history.of("trim_checkpoints")
            if call.may_have_happened
        }
        for task_id in asked.keys() & self._stored.tasks.keys():
            wanted = done[task_id][-1:] if task_id in trimmed else done[task_id]
            yield from self._noted(task_id, map(_noted, wanted), asked[task_id])
            numbers = [one.number for one in self._stored.checkpoints.get(task_id, [])]
            if task_id not in trimmed and numbers[:1] not in ([], [1]):
                yield Violation("lost", task_id, f"has checkpoints numbered {numbers}")

    def _noted(
        self, task_id: str, wanted: Iterable[Noted], asked: Counter[Noted]
    ) -> Iterator[Violation]:
        kept = Counter(
            (one.type, json.dumps(json.loads(one.data), sort_keys=True))
            for one in self._stored.checkpoints.get(task_id, [])
            if one.type != "error_boundary"
        )
        for noted in Counter(wanted) - kept:
            yield Violation("lost", task_id, f"{noted} was noted and there is no such checkpoint")
        if self._is_on_record(task_id):
            for noted in kept - asked:
                yield Violation("phantom", task_id, f"{noted} was not noted so often")

    def _is_on_record(self, task_id: str) -> bool:
        """Whether every holder of a task told what it did."""
        moves = self._stored.moves.get(task_id, [])
        claims = [move for move in moves if move.to_status == "running"]
        return all((task_id, move.token) in self._writes.leases for move in claims)

    def _runs(self) -> Iterator[Violation]:
        """A recovery that was reported is on record, over, and says what it said."""
        for call in self._history.of("recover"):
            if not call.is_done:
                continue
            run_id, put_back, failed = call.value
            run = (self._stored.runs or {}).get(run_id)
            said = None if run is None else (run.put_back, run.failed)
            if run is None or run.completed_at is None or said != (put_back, failed):
                yield Violation("lost", "", f"{call} and the store says {run}")

    def _keys(self) -> Iterator[Violation]:
        """A key stands for one task at a time, and for one that lives it is there."""
        owners = {key.task_id for key in self._stored.keys.values()}
        for task in self._stored.tasks.values():
            if task.keyed and task.status not in FINAL and task.id not in owners:
                yield Violation("lost", task.id, "has an idempotency key that is not there")
        by_key: dict[str, list[Call]] = defaultdict(list)
        for call in self._history.of("enqueue"):
            key = call.arguments.get("idempotency_key")
            if key is not None and call.is_done:
                by_key[key].append(call)
        for key, calls in by_key.items():
            first, row = calls[0], self._stored.keys.get(key)
            # Where no row is left it was purged, and so the key had expired.
            lasts_ms = row.lasts_ms if row is not None else 0
            for call in calls[1:]:
                is_near = call.asked_clock_ms - first.asked_clock_ms < lasts_ms
                kept = self._stored.tasks.get(first.value[0])
                is_kept = kept is not None and kept.status not in ("failed", "cancelled")
                if call.value != first.value and is_near and is_kept:
                    yield Violation("twice", call.value[0], f"key {key!r} stands for {first} too")


def _noted(call: Call) -> Noted:
    return call.arguments["type"], json.dumps(call.arguments["data"], sort_keys=True)


def _last(calls: Sequence[Call]) -> Call | None:
    """The call that was made last; None if that cannot be told."""
    last = calls[-1]
    is_certain = all(one.outcome is not None and one.outcome != "unknown" for one in calls)
    earlier = [one for one in calls[:-1] if one.is_done]
    is_apart = all((one.answered_at or 0) <= last.asked_at for one in earlier)
    return last if is_certain and is_apart and last.is_done else None
