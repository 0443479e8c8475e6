"""How an Outlast object holds its store: opened when first needed, to look or to serve."""

import os
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.app.lock_renewal import let_all_go
from outlast.clock import Clock, Instant, SystemClock
from outlast.domain.escaping import shown
from outlast.errors import (
    InvalidInput,
    OutlastError,
    RecoveryFailed,
    StoreBusy,
    StoreError,
    StoreReplaced,
)
from outlast.logs import Log, about
from outlast.maintenance.healing import Recovery
from outlast.maintenance.loop import MaintenanceLoop
from outlast.maintenance.recovery import usual_recovery
from outlast.settings import Settings
from outlast.settings.ambient import ambient_settings
from outlast.store.records import Batch
from outlast.store.session import Session, policy_of
from outlast.tasks.settle import release_all
from outlast.tasks.tracing import Tracing

if TYPE_CHECKING:
    from outlast.store.opening import Backend
    from outlast.store.store import Store


class StoreHandle:
    """Opens lazily under a lock; a failed opening raises, and the next call tries again."""

    def __init__(
        self,
        backend: Callable[[], "Backend"],
        path: Path,
        settings: Settings | None,
        clock: Clock | None,
        recovery: Recovery | None,
        *,
        log: Log,
        is_guest: bool = False,
    ) -> None:
        if settings is not None and not isinstance(settings, Settings):
            raise InvalidInput(f"settings must be a Settings object, not {shown(settings)}")
        if clock is not None and not callable(getattr(clock, "now", None)):
            raise InvalidInput(f"clock must be an object with a method now(), not {shown(clock)}")
        self._backend = backend
        self._path = path
        self.settings = ambient_settings() if settings is None else settings
        self._clock = clock or SystemClock()
        # Asked at each enqueue, where every call that can be spared is.
        self.now: Callable[[], Instant] = self._clock.now
        """The present moment, from the injected clock."""
        self._recovery = recovery or usual_recovery
        self.tracing: Tracing | None = None
        """Who is told of each enqueue, if anybody is."""
        self._log = log
        self._is_guest = is_guest
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.RLock()
        self._is_opening = False
        self._session: Session | None = None
        self._looking: Store | None = None
        self._maintenance: MaintenanceLoop | None = None

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._path

    @property
    def is_serving(self) -> bool:
        """Whether the store is open to serve, so that nobody would have to wait for it."""
        session = self._session
        return session is not None and not session.store.closed

    def serve(self, tell: Callable[[Batch], None] | None = None) -> Session:
        """The store, opened to serve: migrated, recovered, ready; `tell` hears of the recovery."""
        session = self._session
        # In a forked child the parent's store is closed, so the usual case need not ask who we are.
        if session is not None and not session.store.closed:
            return session
        self._leave_the_parents_behind()
        with self._mutex:
            if self._session is not None and self._session.store.closed:
                raise self._closed(self._session.store)
            if self._session is None:
                self._session = self._opened(tell)
            return self._session

    def open(self) -> None:
        """Open to serve; also a new beginning after the file was replaced."""
        self._leave_the_parents_behind()
        with self._mutex:
            if self._session is not None and self._session.store.closed:
                self._drop()
        self.serve()

    def _closed(self, store: "Store") -> StoreError:
        if store.is_left_at_exit:
            return StoreError(
                f"{self._path} was closed, for the interpreter ends; nothing was stored, do it"
                " before the program's end or in an atexit handler registered after outlast is"
                " imported"
            )
        return StoreReplaced(
            f"{self._path} was replaced or removed while it was open, and nothing more is written"
            " to it; find out who did that, then call close() or open() to begin anew"
        )

    def look(self) -> "Store":
        """The store, opened in whatever way it is, or else only to look."""
        self._leave_the_parents_behind()
        session, looking = self._session, self._looking
        if session is not None:
            if session.store.closed:
                raise self._closed(session.store)
            return session.store
        if looking is not None and not looking.closed:
            return looking
        with self._mutex:
            if self._session is not None:
                return self.look()
            if self._looking is not None and not self._looking.closed:
                return self._looking
            self._drop()
            self._looking = self._backend().look(self._real_path(), self.settings)
            if self._looking.recovery.orphans_are_there(
                self.now(), self.settings.patience, policy_of(self.settings)
            ):
                what = (
                    "due and runs when it is next opened to serve"
                    if self.settings.recovers
                    else "switched off, and they stay"
                )
                self._log.warning(
                    "%s holds tasks whose holders are gone: recovery is %s",
                    self._path,
                    what,
                    extra=about(store=self._path),
                )
            return self._looking

    def migrate(self) -> list[str]:
        """Bring the schema up to date by hand."""
        self._leave_the_parents_behind()
        with self._mutex:
            return self._backend().migrate(self._real_path(), self.settings, self.now())

    def close(self, error: BaseException | None = None) -> None:
        """Give back every lease that is still out, and leave the store.

        They are charged as a crash charges them if an error of the work's own drove us out.
        """
        self._leave_the_parents_behind()
        session = self._session
        if session is not None and not session.store.closed:
            session.store.refuse_inside()
            # Without our lock, since what they tell may ask for it.
            for end in list(session.subscriptions):
                end()
        with self._mutex:
            if self._session is not None and not self._session.store.closed:
                self._session.store.refuse_inside()
                for dismiss in list(self._session.workers.values()):
                    dismiss()
                try:
                    try:
                        release_all(self._session, None if _is_polite(error) else error)
                    finally:
                        let_all_go(self._session)
                except OutlastError as failure:
                    self._log.warning("closing %s: %s", self._path, failure)
            self._drop()

    def _opened(self, tell: Callable[[Batch], None] | None) -> Session:
        if self._is_opening:
            # By this very thread, or it would not have come past the mutex: it waits for itself.
            raise StoreError(
                "the store was called while this same thread opens it, by a signal handler or a"
                " finalizer; let the main program do that instead, or open() the store before"
            )
        try:
            self._is_opening = True
            return self._open(tell)
        finally:
            self._is_opening = False

    def _open(self, tell: Callable[[Batch], None] | None) -> Session:
        loading = sys.modules.get("outlast.worker.isolation.load")
        if loading is not None:
            # A module that enqueues where it is loaded would do so in each handler's process.
            loading.refuse_while_loading()
        store = self._backend().serve(self._real_path(), self.settings, self.now())
        session = Session(store, self._clock, self.settings, self._log, tell=tell)
        session.is_guest = self._is_guest
        try:
            self._recovery(session)
            maintenance = MaintenanceLoop(session)
            # An object that is forgotten unclosed has no use for its maintenance thread.
            self._forgotten = weakref.finalize(self, maintenance.let_go)
            self._forgotten.atexit = False
            self._maintenance = maintenance
            maintenance.start()
        except BaseException as error:
            self._backend().leave(store, self.now())
            if isinstance(error, OutlastError) and not isinstance(error, StoreBusy):
                raise RecoveryFailed(
                    f"{self._path} could not be made ready: {error}; nothing was handed out"
                ) from error
            raise
        return session

    def _drop(self) -> None:
        session, self._session = self._session, None
        maintenance, self._maintenance = self._maintenance, None
        if maintenance is not None:
            self._forgotten.detach()
            maintenance.stop()
        if session is not None:
            session.ended = True
            self._backend().leave(session.store, self.now())
        looking, self._looking = self._looking, None
        if looking is not None:
            self._backend().leave(looking, self.now())

    def _real_path(self) -> Path:
        """Links are followed once, so that every name of a file leads to the same side folder."""
        return Path(os.path.realpath(self._path))

    def _leave_the_parents_behind(self) -> None:
        """What a forked child inherited is its parent's, down to a mutex that may be locked."""
        if os.getpid() != self._pid:
            self._reset()


def _is_polite(error: BaseException | None) -> bool:
    """Whether somebody asked us to leave, rather than the work having thrown us out."""
    if isinstance(error, SystemExit):
        return error.code in (0, None)
    return error is None or isinstance(error, KeyboardInterrupt | GeneratorExit)
