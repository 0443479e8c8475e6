"""The detector: looks for the dead in every serving process, now and then and when told of a death.

It runs in a thread of its own. Claims heal too; the detector is for those who never claim. It also
sums up what metrics count, so that whoever looks finds little left to read.
"""

import threading
import time
from collections.abc import Callable

from outlast.engine.heal import heal
from outlast.engine.session import Session
from outlast.errors import OutlastError

# A tick that comes this much later than it should: the process was stopped, or the machine slept,
# and so may those be whose silence is to be judged.
LATE = 2.0


class Detector:
    """One serving process's detector."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._interval_seconds = session.settings.detection_interval_seconds
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._ticked_at = clock()

    def start(self) -> None:
        """Look from now on, unless it is switched off."""
        if self._interval_seconds <= 0 or not self._session.settings.recovers:
            return
        thread = threading.Thread(target=self._run, name="outlast-detector", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # Claims look too, and so does the next start.
            self._session.log.warning("nobody looks for dead workers by itself: %s", error)
            return
        self._thread = thread

    def stop(self) -> None:
        """Stop looking, and wait for a look that is under way."""
        self._stopping.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            self.tick()

    def tick(self) -> bool:
        """One look; False when it was skipped because it came too late."""
        now = self._clock()
        is_late = now - self._ticked_at > LATE * self._interval_seconds
        self._ticked_at = now
        if is_late:
            self._session.log.info("a look for dead workers came late and is skipped")
            return False
        try:
            session = self._session
            if session.store.healing_is_due(session.now(), session.settings.patience):
                heal(session)
            session.store.fold_metrics()
        except OutlastError as error:
            self._session.log.warning("looking for dead workers failed: %s", error)
        return True
