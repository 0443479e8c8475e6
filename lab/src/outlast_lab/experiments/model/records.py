"""What the model of the queue is made of. Like the model, it knows nothing of the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# That a step begins is no progress; every other record that a handler makes of itself is.
NO_PROGRESS = "iteration_start"
FINAL = ("completed", "failed", "cancelled")
STATUSES = ("pending", "running", *FINAL)


class Refused(Exception):
    """The queue must say no, in this word, about these tasks."""

    def __init__(self, word: str, *task_ids: str) -> None:
        super().__init__(word, *task_ids)
        self.word = word
        self.task_ids = tuple(sorted(task_ids))


@dataclass(frozen=True)
class Rules:
    """The settings the model has to know."""

    action: str = "retry"
    by_kind: Mapping[str, str] = field(default_factory=dict)
    is_held: bool = False
    """Whether what recovery puts back waits for somebody's approval."""
    max_retries: int = 2
    max_recoveries: int = 2
    """How many crashes in a row are taken back of a task that says nothing of it."""
    most_recoveries: int = 100
    lease_ms: int = 60_000
    key_ttl_ms: int = 100_000
    heal_interval_ms: int = 1000
    backoff_ms: int = 2000
    backoff_cap_ms: int = 5000

    def action_for(self, kind: str) -> str:
        """What becomes of an orphan of a kind."""
        return self.by_kind.get(kind, self.action)

    def is_spent(self, recoveries: int, in_row: int, own_limit: int | None) -> bool:
        """Whether a task that crashes now is not put back any more."""
        limit = self.max_recoveries if own_limit is None else own_limit
        return in_row >= limit or recoveries >= self.most_recoveries


@dataclass(eq=False)
class Incarnation:
    """One process's opening of the store."""

    dead: bool = False
    healed_at: int | None = None


@dataclass(eq=False)
class Session:
    """One Outlast object's opening of the store."""

    incarnation: Incarnation
    ended: bool = False


@dataclass(eq=False)
class Task:
    """A task, its lease if it has one, and all that ever happened to it."""

    id: str
    kind: str = "a"
    payload: Any = None
    queue: str = "q1"
    priority: int = 0
    group: str | None = None
    max_retries: int = 0
    max_recoveries: int | None = None
    parked: str | None = None
    not_before: int | None = None
    retry_of: str | None = None
    status: str = "pending"
    attempt: int = 0
    retries: int = 0
    recoveries: int = 0
    crashes_in_row: int = 0
    token: int = 0
    result: Any = None
    lease: "Lease | None" = None
    moves: list[tuple[str, str, str, int, int]] = field(default_factory=list)
    checkpoints: list[tuple[int, str, int]] = field(default_factory=list)

    def note(self, type: str) -> int:
        """Append a checkpoint; its number."""
        number = len(self.checkpoints) + 1
        self.checkpoints.append((number, type, self.attempt))
        return number


@dataclass(eq=False)
class Lease:
    """A task in somebody's hands, or what is left of that."""

    task: Task
    token: int
    session: Session
    worker: str
    length_ms: int
    ends: int
    begun: bool
    heard: int = 0
    settled: bool = False
    is_over: bool = False

    @property
    def current(self) -> bool:
        """Whether its holder may still write."""
        return self.task.lease is self

    @property
    def overtaken(self) -> bool:
        """Whether somebody else holds the task by now."""
        return self.task.lease is not None and not self.current


@dataclass(frozen=True)
class Key:
    """What an idempotency key stands for."""

    request: Any
    task: Task | None
    expires: int


@dataclass(frozen=True)
class Wish:
    """What a claim asks for."""

    worker: str = "w1"
    limit: int = 1
    queues: tuple[str, ...] = ("q1",)
    kinds: tuple[str, ...] | None = None
    group: str | None = None
    lease_ms: int | None = None
    begun: bool = True


@dataclass(frozen=True)
class Options:
    """What an enqueue says of all its tasks; `run_at` gives the delay as a time."""

    kind: str = "a"
    queue: str = "q1"
    priority: int = 0
    group: str | None = None
    max_retries: int | None = None
    max_recoveries: int | None = None
    delay: int | None = None
    run_at: bool = False


@dataclass(frozen=True)
class Entry:
    """What an enqueue says of one task; its payload goes by a name, for short prints."""

    named: str = "nothing"
    id: str | None = None
    key: str | None = None

    @property
    def payload(self) -> Any:
        """The value itself."""
        return VALUES[self.named]


VALUES = {
    "nothing": None,
    "an object": {"x": 1, "y": [2]},
    "the same": {"y": [2], "x": 1},
    "a large one": "x" * 3000,
}
"""Payloads and results; large ones are kept apart from their rows."""
