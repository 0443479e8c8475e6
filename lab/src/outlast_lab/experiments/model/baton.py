"""Actors of which exactly one runs: threads that hand a baton back at each boundary.

A boundary lies before and after every transaction, and before every read on which something may
be decided. Nothing is held there but what a real thread of a real process would hold as well, so
any other actor can be let run, and a process can die.
"""

import threading
from collections.abc import Callable

PATIENCE_SECONDS = 60.0


class Died(BaseException):
    """The process of the actor that runs is dead; no code of the queue may swallow this."""


class Hung(Exception):
    """An actor came to no boundary: it waits for something that only another could give it."""


class Actor:
    """One thread of one process, which makes one call after another."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.boundary: str | None = None
        """Where it stands in the middle of a call; None when it is idle."""
        self.lines_up = False
        """Whether its next write joins the queue of its process before the actor stops."""
        self.is_dead = False
        self.error: BaseException | None = None
        self._is_free: Callable[[], bool] | None = None
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)

    @property
    def is_idle(self) -> bool:
        """Whether it has no call under way."""
        return self.boundary is None

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for another actor of its process."""
        return self._is_free is not None and not self._is_free()

    def begin(self, job: Callable[[], None]) -> None:
        """Begin a call and run to its first boundary, or to its end if there is none."""
        self.boundary = "the beginning"
        _Thread(self, job).start()
        self._wait()

    def go_on(self) -> None:
        """Run to the next boundary, or to the end of the call."""
        self._go.release()
        self._wait()

    def _wait(self) -> None:
        if not self._stopped.acquire(timeout=PATIENCE_SECONDS):
            raise Hung(f"{self.name} hangs after {self.boundary}; nobody else runs")
        error, self.error = self.error, None
        if error is not None:
            raise error

    # In the actor's own thread

    def stop(self, boundary: str, is_free: Callable[[], bool] | None = None) -> None:
        """Hand the baton back, and wait for it."""
        if self.is_dead:
            raise Died
        self.boundary = boundary
        self._is_free = is_free
        self._stopped.release()
        self._go.acquire()
        self._is_free = None
        if self.is_dead:
            raise Died

    def run(self, job: Callable[[], None]) -> None:
        """The whole of a call; what a dead process's code does while it unwinds is nobody's."""
        try:
            job()
        except Died:
            self.is_dead = True
        except BaseException as error:
            self.error = None if self.is_dead else error
        finally:
            self.boundary = None
            self._stopped.release()


class _Thread(threading.Thread):
    def __init__(self, actor: Actor, job: Callable[[], None]) -> None:
        super().__init__(name=actor.name, daemon=True)
        self.actor = actor
        self._job = job

    def run(self) -> None:
        self.actor.run(self._job)


def running() -> Actor | None:
    """The actor whose thread this is."""
    thread = threading.current_thread()
    return thread.actor if isinstance(thread, _Thread) else None


# The boundaries; whoever is no actor passes


def before_write(context: str) -> bool:
    """A write is about to begin; True: line up for the next group before anything else."""
    actor = running()
    if actor is None:
        return False
    actor.stop(f"before {context}")
    return actor.lines_up


def lined_up(context: str) -> None:
    """It stands in the queue, and whoever leads next takes it along."""
    if actor := running():
        actor.stop(f"in the queue with {context}")


def after_write(context: str) -> None:
    """A write is committed or refused, and everything is let go of; its caller has not heard."""
    if actor := running():
        actor.stop(f"after {context}")


def before_read(context: str) -> None:
    """Something is about to be read, on which more may be decided."""
    if actor := running():
        actor.stop(f"before {context}")


def until(is_free: Callable[[], bool]) -> None:
    """Something of the process's own is in use: return when it is free."""
    actor = running()
    while actor is not None and not is_free():
        actor.stop("a door", is_free)
