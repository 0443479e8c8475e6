"""What the invariants say of leases that follow each other: too early, by the wrong hand, twice."""

import json
import zlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from outlast_lab.judge.foreign_reader import Move, Stored, StoredTask
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import Call, History

Doctor = Callable[[History, Stored, list[Move]], None]

# Who held it, by which token, in which attempt; how each lease ended, and what was counted then.
HELD = [("a", 1, 1), ("b", 2, 2), ("c", 3, 3), ("d", 4, 4), ("e", 5, 4)]
ENDS = {
    1: ("worker", "retry", 1),
    2: ("system/recovery", "lease_expired_retry", 2),
    3: ("system/recovery", "crash_retry", 3),
    4: ("worker", "released", 3),
    5: ("worker", "completed", 4),
}


def call(worker: str, verb: str, at: float, arguments: Any, value: Any) -> Call:
    """A call that took a tenth of a second and was done."""
    later = at + 0.1
    return Call(
        worker, verb, arguments, at, int(at * 1000), later, int(later * 1000), "done", value
    )


def sound_history() -> tuple[History, Stored]:
    """A task that a failed, b let expire, c crashed with, d gave back by leaving, e completed."""
    claims = [
        call(worker, "claim", 10.0 * token, {}, [["t", token, attempt, 4000]])
        for worker, token, attempt in HELD
    ]
    late = call("b", "complete", 32.0, {"ids": ["t"], "token": 2, "result": "b/2"}, None)
    late.outcome = "refused"
    last = {"ids": ["t"], "token": 5, "result": "e/5"}
    writes = [
        call("a", "renew", 11.5, {"ids": ["t"], "token": 1}, True),
        call("a", "fail", 12.0, {"ids": ["t"], "token": 1}, True),
        late,
        call("e", "complete", 52.0, last, True),
        call("e", "complete", 53.0, last, False),
    ]
    asked = call("a", "enqueue", 1.0, {"ids": ["t"], "payloads": [None]}, ["t"])
    history = History([asked, *claims, *writes], {"c": 35.0}, {"d": 45.0})
    result = json.dumps("e/5")
    sums = zlib.crc32(b"t\0work\0None"), zlib.crc32(f"t\0{result}".encode())
    task = StoredTask(
        "t", 1, "completed", "work", None, 4, 1, 2, 2, 3, 3, 5, None, None, 0, None, 0, sums[0], 5,
        sums[1], None, result,
    )  # fmt: skip
    moves: list[Move] = []
    for worker, token, attempt in HELD:
        actor, reason, counted = ENDS[token]
        to = "completed" if reason == "completed" else "pending"
        moves += [
            Move("pending", "running", "worker", "claimed", attempt, token, worker),
            Move("running", to, actor, reason, counted, token, worker),
        ]
    return history, Stored(tasks={"t": task}, moves=defaultdict(list, {"t": moves}))


def test_a_sound_history_has_no_violations() -> None:
    assert violations(*sound_history()) == []


def _got_at(token: int, at: float) -> Doctor:
    """The lease with this token was in its worker's hands at that moment already."""

    def doctor(history: History, stored: Stored, moves: list[Move]) -> None:
        for one in history.of("claim"):
            if one.value[0][1] == token:
                one.asked_at = min(one.asked_at, at)
                one.answered_at, one.answered_clock_ms = at, int(at * 1000)

    return doctor


def _move(place: int, **changes: Any) -> Doctor:
    def doctor(history: History, stored: Stored, moves: list[Move]) -> None:
        moves[place] = moves[place]._replace(**changes)

    return doctor


def _write(place: int, **changes: Any) -> Doctor:
    """Change one of the five writes."""

    def doctor(history: History, stored: Stored, moves: list[Move]) -> None:
        for name, value in changes.items():
            setattr(history.calls[6 + place], name, value)

    return doctor


# Each breaks one promise in an otherwise sound history.
DOCTORED: dict[str, tuple[str, Doctor]] = {
    "a failure that was acknowledged was overruled": (
        "lost", _move(1, actor="system/recovery", reason="crash_retry")),
    "a failure became a completion": ("lost", _move(1, reason="completed")),
    "a lease was got that the store never gave": (
        "lost",
        lambda h, s, m: h.calls.append(call("f", "claim", 60.0, {}, [["t", 9, 5, 4000]]))),
    "two completions stand in the store": (
        "twice", _move(3, to_status="completed", reason="completed")),
    "two were told that they completed it": ("twice", _write(4, value=True)),
    "one lease went to two workers": (
        "twice",
        lambda h, s, m: h.calls.append(call("f", "claim", 50.0, {}, [["t", 5, 4, 4000]]))),
    "a late write was accepted": ("zombie", _write(2, outcome="done", value=True)),
    "a late renewal was accepted": ("zombie", _write(0, asked_at=22.0)),
    "a token fell": ("tokens", _move(4, token=1)),
    "a token was used again": ("tokens", _move(4, token=2)),
    "an ending carries another lease's token": ("tokens", _move(3, token=1)),
    "it left a state that it was not in": ("path", lambda h, s, m: m.__delitem__(5)),
    "it left a final state": (
        "path", lambda h, s, m: m.append(Move("completed", "pending", "user", "", 4, 5, None))),
    "a lease ended by its worker's hand without its knowledge": (
        "path", lambda h, s, m: h.left_at.clear()),
    "the next lease came before the last was ended": ("overlap", _got_at(2, 11.0)),
    "the next lease came before the last ran out": ("overlap", _got_at(3, 23.5)),
    "the next lease came before its holder was killed": ("overlap", _got_at(4, 34.5)),
    "the next lease came before its holder left": ("overlap", _got_at(5, 44.5)),
    "the living was declared dead": ("overlap", lambda h, s, m: h.killed_at.clear()),
}  # fmt: skip


@pytest.mark.parametrize("broken", DOCTORED)
def test_each_kind_of_violation_is_seen(broken: str) -> None:
    kind, doctor = DOCTORED[broken]
    history, stored = sound_history()
    doctor(history, stored, stored.moves["t"])
    assert kind in {found.kind for found in violations(history, stored)}
