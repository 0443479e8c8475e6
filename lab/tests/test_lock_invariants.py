"""The judge of locks: what it must object to, and what it must let pass."""

from collections.abc import Iterator
from typing import Any

import pytest

from outlast_lab.history import ANSWERED, ASKS, KILLED, Line, history_of
from outlast_lab.locks import ACQUIRE, EXTEND, FORCE, MARK_DEAD, RELEASE, Locks
from outlast_lab.stored import Stored, StoredLock

SECOND = 1000


def call(
    worker: str, verb: str, at: float, value: Any, outcome: str = "done", **arguments: Any
) -> list[Line]:
    """Asked at a second and answered a tenth of one later; both clocks agree."""
    number = f"{worker} {verb} {at}"
    asked = [ASKS, number, worker, verb, {"name": "x", **arguments}, at, int(at * SECOND)]
    later = at + 0.1
    return [asked, [ANSWERED, number, worker, outcome, value, later, int(later * SECOND)]]


def taken(worker: str, token: int | None, at: float, seconds: float = 10) -> list[Line]:
    return call(worker, ACQUIRE, at, token, ttl_ms=int(seconds * SECOND))


def declared_dead(at: float) -> list[Line]:
    """Somebody who may hold any lock."""
    lines = call("c", MARK_DEAD, at, True)
    lines[0][4] = {"incarnation": "of a"}
    return lines


def complaints(
    *parts: list[Line], row: tuple[str, int] | None = None, token: int = 99
) -> Iterator[str]:
    locks = {} if row is None else {"x": StoredLock("x", *row)}
    lines = sorted((line for part in parts for line in part), key=lambda line: float(line[-2]))
    stored = Stored(locks=locks, lock_token=token)
    return (one.kind for one in Locks(history_of(lines), stored).all())


BROKEN: dict[str, tuple[str, list[list[Line]], dict[str, Any]]] = {
    "two hold it at once": (
        "overlap", [taken("a", 1, 0), taken("b", 2, 5)], {"row": ("b", 2)},
    ),
    "an extension is not kept": (
        "overlap",
        [
            taken("a", 1, 0),
            call("a", EXTEND, 5, True, token=1, ttl_ms=60_000),
            taken("b", 2, 20),
        ],
        {"row": ("b", 2)},
    ),
    "another lock was freed": (
        "overlap",
        [taken("a", 1, 0), call("c", FORCE, 1, True, name="y"), taken("b", 2, 2)],
        {"row": ("b", 2)},
    ),
    "a token comes again": (
        "twice", [taken("a", 1, 0, 1), taken("b", 1, 5)], {"row": ("b", 1)},
    ),
    "a token falls": (
        "token", [taken("a", 5, 0, 1), taken("b", 4, 5)], {"row": ("b", 4)},
    ),
    "one that is over gives it back": (
        "zombie",
        [taken("a", 1, 0), taken("b", 2, 20), call("a", RELEASE, 25, True, token=1)],
        {"row": ("b", 2)},
    ),
    "a grant is not stored": ("lost", [taken("a", 1, 0)], {}),
    "the counter is behind": ("lost", [taken("a", 7, 0)], {"row": ("a", 7), "token": 6}),
    "what was given back is there": (
        "lost",
        [taken("a", 1, 0), call("a", RELEASE, 1, True, token=1)],
        {"row": ("a", 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_told(name: str) -> None:
    kind, parts, stored = BROKEN[name]
    assert kind in list(complaints(*parts, **stored))


SOUND: dict[str, tuple[list[list[Line]], dict[str, Any]]] = {
    "after its time": ([taken("a", 1, 0), taken("b", 2, 10.2)], {"row": ("b", 2)}),
    "after it was given back": (
        [taken("a", 1, 0), call("a", RELEASE, 1, True, token=1), taken("b", 2, 1.05)],
        {"row": ("b", 2)},
    ),
    "after an operator freed it": (
        [taken("a", 1, 0), call("c", FORCE, 1, True), taken("b", 2, 1.05)],
        {"row": ("b", 2)},
    ),
    "after its holder was declared dead": (
        [taken("a", 1, 0), declared_dead(1), taken("b", 2, 1.05)],
        {"row": ("b", 2)},
    ),
    "after its holder was killed": (
        [taken("a", 1, 0), [[KILLED, "a", 1.0, 0]], taken("b", 2, 2)],
        {"row": ("b", 2)},
    ),
    "a release of unknown outcome": (
        [taken("a", 1, 0), call("a", RELEASE, 1, "?", "unknown", token=1), taken("b", 2, 2)],
        {"row": ("b", 2)},
    ),
    "refused": ([taken("a", 1, 0), taken("b", None, 1)], {"row": ("a", 1)}),
    "renewed": ([taken("a", 1, 0), taken("a", 1, 5)], {"row": ("a", 1)}),
    "one that is over is told so": (
        [taken("a", 1, 0), taken("b", 2, 20), call("a", RELEASE, 25, False, token=1)],
        {"row": ("b", 2)},
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_is_let_pass(name: str) -> None:
    parts, stored = SOUND[name]
    assert list(complaints(*parts, **stored)) == []
