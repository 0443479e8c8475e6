"""Tasks on their way into a store: checked and encoded, one by one or by columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

from outlast.domain.lifecycle import Parked
from outlast.domain.task import Stored, utc


class Key(NamedTuple):
    """An idempotency key as an enqueue reserves it."""

    text: str
    request_hash: str
    ttl_ms: int


class NewTask(NamedTuple):
    """A task as it enters the store; validated and encoded before it comes here."""

    id: str
    kind: str
    queue: str
    priority: int
    group: str | None
    payload: str | None
    payload_sum: int
    max_retries: int
    max_recoveries: int | None
    not_before_ms: int | None
    created_ms: int
    retry_of: str | None = None
    key: Key | None = None

    def told(self) -> Mapping[str, Any]:
        """The fields of the task just stored, without reading it back."""
        created = utc(self.created_ms)
        return {
            "kind": self.kind,
            "queue": self.queue,
            "priority": self.priority,
            "group": self.group,
            "parked": None if self.not_before_ms is None else Parked.DELAY,
            "max_retries": self.max_retries,
            "max_recoveries": self.max_recoveries,
            "retry_of": self.retry_of,
            "created_at": created,
            "updated_at": created,
            "state_changed_at": created,
            "not_before": utc(self.not_before_ms),
            "stored_payload": Stored(self.payload, self.payload_sum),
        }


class AlikeTasks(Sequence[NewTask]):
    """New tasks that differ in nothing but ids and payloads: kept by columns, as they are bound.

    Each is made when it is looked at.
    """

    __slots__ = ("ids", "payloads", "sums", "template")

    def __init__(
        self,
        template: NewTask,
        ids: Sequence[str],
        payloads: Sequence[str | None],
        sums: Sequence[int],
    ) -> None:
        self.template = template
        self.ids = ids
        self.payloads = payloads
        self.sums = sums

    def __len__(self) -> int:
        """How many."""
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> NewTask: ...

    @overload
    def __getitem__(self, place: slice) -> "AlikeTasks": ...

    def __getitem__(self, place: int | slice) -> "NewTask | AlikeTasks":
        """One of them, or some of them."""
        if isinstance(place, slice):
            parts = self.ids[place], self.payloads[place], self.sums[place]
            return AlikeTasks(self.template, *parts)
        return self._made(self.ids[place], self.payloads[place], self.sums[place])

    def __iter__(self) -> Iterator[NewTask]:
        """All of them."""
        return map(self._made, self.ids, self.payloads, self.sums)

    def _made(self, task_id: str, payload: str | None, checksum: int) -> NewTask:
        return self.template._replace(id=task_id, payload=payload, payload_sum=checksum)
