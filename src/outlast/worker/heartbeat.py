"""The heartbeat of a worker, sent by its store process: it renews the leases and notices lost ones.

Beat and renewal share one transaction. A beat that fails is tried again, sooner than the next one
is due, and ends nothing.
"""

import time
from collections.abc import Mapping
from contextlib import suppress

from outlast.errors import DeclaredDead, OutlastError, StoreReplaced
from outlast.host import memory
from outlast.store.records import Claimed
from outlast.store.session import Session
from outlast.worker.messages import Begin, Proof, Report

WATCH_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0


class Heartbeat:
    """When to beat and when to look at the leases, and what came of it."""

    def __init__(self, session: Session, begin: Begin) -> None:
        self._session = session
        self._begin = begin
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._watched = 0
        self.beat_at = 0.0
        self.watch_at = 0.0
        self.renewed_mono_ms = 0
        """When the leases were last renewed for certain."""

    def beat_soon(self) -> None:
        """Beat within a moment: there is something that should not wait for the next beat."""
        self.beat_at = min(self.beat_at, time.monotonic() + WATCH_SECONDS)

    def put_off(self) -> None:
        """Renew nothing for the moment, because the worker is stopped or gone."""
        self.beat_at = time.monotonic() + WATCH_SECONDS

    def beat(self, held: Mapping[Proof, Claimed], report: Report) -> list[Proof]:
        """Beat, and renew all leases; returns those that are no longer ours."""
        session, leases = self._session, list(held.items())
        began, began_mono_ms = time.monotonic(), session.now().mono_ms
        try:
            current = session.store.workers.beat(
                self._begin.worker,
                [(one.grant, one.lease_ms) for _, one in leases],
                session.now(),
                serves=self._begin.serves,
                stuck=report.stuck,
                progress=report.progress,
                peak_memory_bytes=memory.peak_memory_bytes(self._begin.pid),
                clock=session.now,
            )
        except (DeclaredDead, StoreReplaced):
            raise
        except OutlastError:
            self.beat_at = began + self._pause_seconds
            self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            raise
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.beat_at = began + self._begin.beat_ms / 1000
        self.renewed_mono_ms = began_mono_ms
        return [key for (key, _), is_ours in zip(leases, current, strict=True) if not is_ours]

    def watch(self, held: Mapping[Proof, Claimed]) -> list[Proof]:
        """Leases that others have ended meanwhile, so that their handlers are called off soon."""
        self.watch_at = time.monotonic() + WATCH_SECONDS
        leases = [(key, one.grant) for key, one in held.items()]
        with suppress(OutlastError):
            changes = self._session.store.changes()
            if changes == self._watched:
                return []
            current = self._session.store.leases.current_among([grant for _, grant in leases])
            self._watched = changes
            return [key for (key, _), is_ours in zip(leases, current, strict=True) if not is_ours]
        return []
