"""The detector: looks for the dead in every serving process, now and then and when told of a death.

The kernel tells only of those one has asked it to watch, so the detector looks when it begins, and
again soon after somebody registers. It runs in a thread of its own. Claims heal too; the detector
is for those who never claim. It also sums up what metrics count, so that whoever looks finds little
left to read.
"""

import os
import threading
import time
from collections.abc import Callable

from outlast.host.waker import Waker
from outlast.maintenance.healing import heal
from outlast.maintenance.recovery import clean_up
from outlast.store.future import Listener
from outlast.store.records import Batch
from outlast.store.session import Session

# Helpers of the dead, which hold its lock on, may outlive it by a moment.
SECOND_LOOK_SECONDS = 1.0
# So soon it is noticed that somebody has registered; where nothing was committed, that is all it
# asks.
PEERS_SECONDS = 1.0
# A tick that comes this much later than it should: the process was stopped, or the machine slept,
# and so may those be whose silence is to be judged.
LATE = 2.0
# Claims look too, and so does the next start.
NOBODY_LOOKS = "nobody looks for dead workers by itself: %s"


class _Stopping(Exception):
    """The detector is to stop in the middle of a look."""


class MaintenanceLoop:
    """One serving process's detector."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._interval_seconds = session.settings.detection_interval_seconds
        self._waker: Waker | None = None
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._ticked_at = clock()
        self._changes_seen: int | None = None
        self._pid = os.getpid()

    def start(self) -> None:
        """Look from now on, unless it is switched off."""
        if not self._session.settings.detects:
            return
        try:
            waker = Waker()
            thread = threading.Thread(
                target=self._run, args=(waker,), name="outlast-maintenance", daemon=True
            )
        except OSError as error:
            self._session.log.warning(NOBODY_LOOKS, error)
            return
        try:
            thread.start()
        except RuntimeError as error:
            waker.close()
            self._session.log.warning(NOBODY_LOOKS, error)
            return
        self._waker, self._thread = waker, thread

    def stop(self) -> None:
        """Stop looking, and wait for a look that is under way."""
        self.let_go()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def let_go(self) -> None:
        """Stop looking soon; waits for nobody, so that a garbage collector may call it."""
        if os.getpid() != self._pid:
            return
        self._is_stopping = True
        waker, self._waker = self._waker, None
        if waker is not None:
            waker.wake()

    def _run(self, waker: Waker) -> None:
        deaths = self._session.store.exit_listener()
        try:
            self._clean_up()
            due = self._clock() + self._interval_seconds
            is_called_for = self._somebody_came()
            while not self._is_stopping:
                left_seconds = due - self._clock()
                if is_called_for:
                    due = min(due, self._clock() + SECOND_LOOK_SECONDS)
                    self._look()
                    is_called_for = False
                elif left_seconds <= 0:
                    due = self._clock() + self._interval_seconds
                    self.tick()
                else:
                    is_called_for = self._sleep(deaths, waker, left_seconds)
        finally:
            deaths.close()
            waker.close()

    def _sleep(self, deaths: Listener, waker: Waker, seconds: float) -> bool:
        """True when it ends early because somebody died, or has come who is to be watched."""
        ends_at = self._clock() + seconds
        while not self._is_stopping and (left_seconds := ends_at - self._clock()) > 0:
            if deaths.wait(min(left_seconds, PEERS_SECONDS), waker.fileno()):
                return True
            if not self._is_stopping and self._something_changed() and self._somebody_came():
                return True
        return False

    def _something_changed(self) -> bool:
        try:
            before, self._changes_seen = self._changes_seen, self._session.store.changes()
        except Exception as error:
            # The next look of its own meets the same, and tells of it.
            self._session.log.debug("asking for changes failed: %s", error)
            return False
        return before != self._changes_seen

    def _somebody_came(self) -> bool:
        try:
            return self._session.store.recovery.peers_have_come()
        except Exception as error:
            self._session.log.debug("asking for new workers failed: %s", error)
            return True

    def tick(self) -> bool:
        """One look; False when it was skipped because it came too late."""
        now = self._clock()
        is_late = now - self._ticked_at > LATE * self._interval_seconds
        self._ticked_at = now
        if is_late:
            self._session.log.info("a look for dead workers came late and is skipped")
            return False
        self._look()
        return True

    def _clean_up(self) -> None:
        try:
            clean_up(self._session, looks_first=True)
        except Exception as error:
            self._session.log.warning("clearing away old keys failed: %s", error)

    def _break_off(self, batch: Batch) -> None:
        """Between two batches: who stops us need not wait for all of them."""
        if self._is_stopping:
            raise _Stopping

    def _look(self) -> None:
        session = self._session
        try:
            if session.store.recovery.is_due(
                session.now(), session.settings.patience, session.policy
            ):
                heal(session, self._break_off)
            session.store.metrics.fold(goes_on=lambda: not self._is_stopping)
        except _Stopping:
            session.log.debug("a look for dead workers was broken off; the next one goes on")
        except Exception as error:
            # Whatever it was, it must not be the end of all looking.
            session.log.warning("looking for dead workers failed: %s", error)
