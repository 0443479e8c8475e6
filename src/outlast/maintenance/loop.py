"""The maintenance loop: one thread in every serving process that runs the periodic jobs.

A job is a function `run(session, goes_on)` in a file of its own. The jobs run when the loop begins,
at each interval, and when the kernel tells of a death. The kernel tells only of processes that it
was asked to watch, so the loop looks again soon after somebody registers. Claims heal too; the loop
is for processes that never claim.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from outlast.host.waker import Waker
from outlast.maintenance import expired_keys, healing, metrics_rollup
from outlast.store.future import Listener
from outlast.store.session import Session

# Child processes of the dead, which inherited its lock, may outlive it by a moment.
SECOND_LOOK_SECONDS = 1.0
# The loop notices within this time that somebody has registered; where nothing was committed, it
# asks for nothing else.
PEERS_SECONDS = 1.0
# When a tick comes this much later than it should, the process was stopped or the machine slept,
# and so may the workers be whose silence is to be judged.
LATE = 2.0
# Without a thread for the loop, claims and the next start still heal.
NOBODY_LOOKS = "nobody looks for dead workers by itself: %s"


class Job(NamedTuple):
    """A periodic job: what it does, as a warning names it, and how it is run."""

    what: str
    run: Callable[[Session, Callable[[], bool]], None]


AT_START = (Job("clearing away old keys", expired_keys.run),)
AT_EACH_TICK = (
    Job("looking for dead workers", healing.run),
    Job("summing up metrics", metrics_rollup.run),
)


class MaintenanceLoop:
    """The maintenance loop of one serving process."""

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
        """Start the thread, unless it is switched off."""
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
        """Stop the thread, and wait for the step of a job that is under way."""
        self.let_go()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def let_go(self) -> None:
        """Stop the thread soon; waits for nothing, so that a garbage collector may call it."""
        if os.getpid() != self._pid:
            return
        self._is_stopping = True
        waker, self._waker = self._waker, None
        if waker is not None:
            waker.wake()

    def _run(self, waker: Waker) -> None:
        deaths = self._session.store.exit_listener()
        try:
            self._run_jobs(AT_START)
            due = self._clock() + self._interval_seconds
            is_called_for = self._somebody_came()
            while not self._is_stopping:
                left_seconds = due - self._clock()
                if is_called_for:
                    due = min(due, self._clock() + SECOND_LOOK_SECONDS)
                    self._run_jobs(AT_EACH_TICK)
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
            # The next tick meets the same error, and logs it.
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
        """Run the periodic jobs once; False when that was skipped because it came too late."""
        now = self._clock()
        is_late = now - self._ticked_at > LATE * self._interval_seconds
        self._ticked_at = now
        if is_late:
            self._session.log.info("a look for dead workers came late and is skipped")
            return False
        self._run_jobs(AT_EACH_TICK)
        return True

    def _goes_on(self) -> bool:
        return not self._is_stopping

    def _run_jobs(self, jobs: tuple[Job, ...]) -> None:
        for job in jobs:
            try:
                job.run(self._session, self._goes_on)
            except Exception as error:
                # An error of one moment must end neither the thread nor the other jobs.
                self._session.log.warning("%s failed: %s", job.what, error)
            if self._is_stopping:
                return
