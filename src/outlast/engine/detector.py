"""The detector: looks for the dead in every serving process, now and then and when told of a death.

It runs in a thread of its own. Claims heal too; the detector is for those who never claim.
"""

import threading
import time
from collections.abc import Callable

from outlast.engine.heal import heal
from outlast.engine.recover import clean_up
from outlast.engine.session import Session
from outlast.engine.waker import Waker
from outlast.errors import OutlastError
from outlast.store.future import Ear

# Helpers of the dead, which hold its lock on, may outlive it by a moment.
SECOND_LOOK_SECONDS = 1.0
# A tick that comes this much later than it should: the process was stopped, or the machine slept,
# and so may those be whose silence is to be judged.
LATE = 2.0


class Detector:
    """One serving process's detector."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._interval_seconds = session.settings.detection_interval_seconds
        self._waker: Waker | None = None
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._ticked_at = clock()

    def start(self) -> None:
        """Look from now on, unless it is switched off."""
        if not self._session.settings.detects:
            return
        try:
            waker = self._waker = Waker()
            thread = threading.Thread(
                target=self._run, args=(waker,), name="outlast-detector", daemon=True
            )
            thread.start()
        except (RuntimeError, OSError) as error:
            # Claims look too, and so does the next start.
            self._session.log.warning("nobody looks for dead workers by itself: %s", error)
            return
        self._thread = thread

    def stop(self) -> None:
        """Stop looking, and wait for a look that is under way."""
        self._is_stopping = True
        waker, self._waker = self._waker, None
        thread, self._thread = self._thread, None
        if waker is not None:
            waker.wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        if waker is not None:
            waker.close()

    def _run(self, waker: Waker) -> None:
        deaths = self._session.store.listen_for_deaths()
        try:
            self._clean_up()
            due = self._clock() + self._interval_seconds
            while not self._is_stopping:
                left_seconds = due - self._clock()
                if left_seconds <= 0:
                    due = self._clock() + self._interval_seconds
                    self.tick()
                elif self._sleep(deaths, waker, left_seconds):
                    due = min(due, self._clock() + SECOND_LOOK_SECONDS)
                    self._look()
        finally:
            deaths.close()

    def _sleep(self, deaths: Ear, waker: Waker, seconds: float) -> bool:
        """True when it ends early because somebody died."""
        return deaths.wait(seconds, waker.fileno())

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
            clean_up(self._session)
        except OutlastError as error:
            self._session.log.warning("clearing away old keys failed: %s", error)

    def _look(self) -> None:
        session = self._session
        try:
            if session.store.healing_is_due(
                session.now(), session.settings.patience, session.policy
            ):
                heal(session)
        except OutlastError as error:
            session.log.warning("looking for dead workers failed: %s", error)
