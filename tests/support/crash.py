"""Processes that live inside the test's own: for the property tests, which need thousands of them.

A real crash is a real kill, and other tests do that. Here a process is one registry: whatever a
process owns alone (connections, incarnation, worker lock file, openers' lock) hangs from it. Its
locks are held through descriptors of its own, so to the kernel two registries are two owners.
"""

from pathlib import Path

from outlast import Outlast, Settings
from outlast.clock import Clock
from outlast.store.sqlite.reads import SqliteReads
from outlast.store.sqlite.registry import Registry
from outlast.store.sqlite.store import SqliteStore


class StandInProcess:
    """Makes Outlast objects that share one incarnation, which can die without goodbye."""

    def __init__(self, path: Path, settings: Settings, clock: Clock) -> None:
        self._path = path
        self._settings = settings
        self._clock = clock
        self._registry = Registry()

    def outlast(self) -> Outlast:
        app = Outlast(self._path, settings=self._settings, clock=self._clock)
        app._handle._backend = self._registry
        return app

    def crash(self) -> None:
        """Leave behind what a killed process would: every row as it is, every lock free.

        The kernel closes a dead process's descriptors, and nothing else happens: no lease is
        given back, no worker signs off, no lock file is unlinked, no log is flushed. The Outlast
        objects made before are of the dead and must not be used again.
        """
        registry, self._registry = self._registry, Registry()
        for looking in registry._looking.values():
            _let_go(looking)
        for serving in registry._serving.values():
            _let_go(serving)


def _let_go(store: SqliteReads) -> None:
    store.closed = True
    if isinstance(store, SqliteStore):
        store._database.close()
        store._holding.end(has_left=False)
        store._gate.close()
    else:
        store._readers.close()
    store._openers.release()
