"""Events: written in the transaction in which they happen, and read as one stream."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from outlast.clock import Instant
from outlast.domain.events import TAKEN, Cursor, Page, Place, Subscriber
from outlast.store.access import Access
from outlast.store.engine import Turn
from outlast.store.ops import cursors, stream
from outlast.store.transaction import Transaction


def add_event(
    tx: Transaction,
    kind: str,
    now: Instant,
    data: dict[str, Any],
    *,
    run_id: int | None = None,
    incarnation: str | None = None,
    worker: str | None = None,
    task_id: str | None = None,
) -> None:
    """Append an event; it takes the next place in the stream that it shares with transitions."""
    if not tx.run("raise_stream"):
        tx.run("begin_stream")
        tx.run("raise_stream")
    tx.run(
        "add_event",
        {
            "kind": kind,
            "now": now.utc_ms,
            "data": json.dumps(data),
            "run_id": run_id,
            "incarnation": incarnation,
            "worker": worker,
            "task_id": task_id,
        },
    )


def add_taken(tx: Transaction, seqs: Sequence[int], now: Instant) -> None:
    """One event for each task that is about to be removed, since its moves go with it."""
    tx.run("begin_stream")
    values = {"kind": TAKEN, "seqs": tx.ids(seqs), "now": now.utc_ms}
    tx.run("raise_stream_by", {"count": tx.run("add_taken_events", values)})


class Events:
    """The event stream: its pages, and the stored places of named subscribers."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def page(self, after: Cursor, limit: int, now: Instant) -> Page:
        """What comes behind a place, up to so many events; gone parts are told first."""
        return self._access.read(
            "reading the stream", lambda tx: stream.page(tx, after, limit, now)
        )

    def end(self) -> Cursor:
        """The place behind all there is."""
        return self._access.read("reading the stream", stream.end)

    def cursor(self, name: str) -> Place | None:
        """The stored place of a named subscriber."""
        return self._access.read("reading a cursor", lambda tx: cursors.place(tx, name))

    def subscribers(self, now: Instant, idle_seconds: float) -> list[Subscriber]:
        """The names that have a stored place, and how far each is."""

        def query(tx: Transaction) -> list[Subscriber]:
            return cursors.listed(tx, stream.end(tx), now, idle_seconds)

        return self._access.read("reading cursors", query)

    def begin_cursor(self, name: str, start: Cursor | None, now: Instant) -> Place:
        """The stored place of a subscriber; a new one begins at `start`, or behind all there is."""

        def operation(tx: Transaction) -> Place:
            return cursors.begin(tx, name, stream.end(tx) if start is None else start, now)

        return self._access.write("cursor", operation)

    def move_cursor(self, name: str, to: Place, now: Instant) -> bool:
        """Store that all up to a place is delivered; False when it is further, gone, or new."""
        return self._access.write("cursor", lambda tx: cursors.move(tx, name, to, now))

    def delete_cursor(self, name: str) -> bool:
        """Forget a subscriber and its place; False when there is none."""
        return self._access.write("cursor", lambda tx: tx.run("delete_cursor", {"name": name})) == 1

    def turn(self, name: str) -> Turn | None:
        """The right to deliver under a name, or None while another has it."""
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
        return self._access.engine.only_one(f"subscribers/{digest}.lock")
