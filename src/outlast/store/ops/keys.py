"""Idempotency keys: what they stand for, and dropping them when their time is over."""

from outlast.clock import Instant
from outlast.store.access import Access
from outlast.store.ops.rows import key_from
from outlast.store.records import KeyRecord


class Keys:
    """The keys that were given at an enqueue."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def purge(self, now: Instant, limit: int, looks_first: bool = False) -> int:
        """Drop expired keys, but none whose task is still alive."""
        values = {"now": now.utc_ms, "limit": limit}
        if looks_first and not self._access.read(
            "looking for old keys", lambda tx: tx.row("keys_expired", values)
        ):
            return 0
        return self._access.write("purge", lambda tx: tx.run("purge_keys", values))

    def find(
        self, task_id: str | None, group: str | None, status: str | None, limit: int
    ) -> list[KeyRecord]:
        """Idempotency keys of a task, of a group, or in a status; newest first."""
        name, value = next(
            (name, value)
            for name, value in (
                ("keys_of_task", task_id),
                ("keys_of_group", group),
                ("keys_by_status", status),
            )
            if value is not None
        )
        values = {"value": value, "limit": limit}
        rows = self._access.read("reading keys", lambda tx: tx.rows(name, values))
        return [key_from(row) for row in rows]
