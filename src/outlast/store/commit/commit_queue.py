"""The commit queue: callers hand their operations over and sleep, one thread commits them.

The committer is a thread of the store's own. It takes all that waits and has the backend run it
in one transaction, so that many callers share one fsync. Nobody who can be interrupted commits:
Python raises the exception of a signal handler in the main thread only, and there a caller merely
sleeps.

An operation is in one of two deques until it is taken, and whoever gets it out of there owns it:
the committer by `popleft`, its interrupted caller by `remove`. Both are atomic in C, so the queue
itself needs no lock, and a signal handler may enqueue wherever it strikes.
"""

import threading
from _thread import allocate_lock, get_ident
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any

from outlast.errors import QueueFull, QueueStalled, StoreError
from outlast.logs import logger
from outlast.store.commit.batch import Batch, wake_futures
from outlast.store.commit.operation import Operation

INSIDE = (
    "the store was called from inside one of its own operations, by a signal handler or a"
    " finalizer; let the main program do that instead"
)
_CLOSED = "this store was closed; open it again"
_FORKED = "this process was forked while the operation waited, and it stayed with the parent"

log = logger("outlast.store")


@cache
def _asyncio() -> tuple[Callable[[], Any], type[BaseException]]:
    """What a waiting coroutine needs; programs without any need not import asyncio."""
    import asyncio

    return asyncio.get_running_loop, asyncio.CancelledError


class CommitQueue:
    """Sees to it that every operation that is waited for is decided once, and answered."""

    def __init__(self, run_batch: Callable[[Batch], None], limits: tuple[int, float]) -> None:
        """`run_batch` commits a batch and decides its members; it may answer them by itself."""
        self._run_batch = run_batch
        self._most_waiting, self._room_timeout_seconds = limits
        self.shared: deque[Operation[Any]] = deque()
        """What waits for a transaction that it shares with others."""
        self.alone: deque[Operation[Any]] = deque()
        """What waits for a transaction of its own."""
        self._was_shared = False
        self.under_way: Batch | None = None
        """What is being committed."""
        # What the committer sleeps on; one call is as good as many.
        self._calls: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._has_committer = False
        self._may_start = True
        self._is_closed = False
        self._starting = threading.RLock()
        self._committers: set[int] = set()

    def wait(self, operation: Operation[Any]) -> None:
        """Hand an operation over and sleep until it is decided."""
        if get_ident() in self._committers:
            raise StoreError(INSIDE)
        asleep = operation.asleep = allocate_lock()
        asleep.acquire()
        queue = self.alone if operation.alone else self.shared
        try:
            queue.append(operation)
            if not self._has_committer:
                self._find_committer(operation)
            elif self._calls.empty():
                self._calls.put(None)
            if len(self.shared) + len(self.alone) <= self._most_waiting:
                asleep.acquire()
            elif not asleep.acquire(timeout=self._room_timeout_seconds):
                self._refuse(operation, self._full())
                asleep.acquire()
        except BaseException:
            self._leave(operation, asleep)
            raise
        if not operation.is_decided:
            raise operation.unknown("the commit ended without a word")

    def waited(self, operation: Operation[Any]) -> Generator[Any, None, None]:
        """The same for a coroutine; cancelled too late to be taken back, it waits on first."""
        loop = _asyncio()[0]()
        operation.awaited = (loop, loop.create_future())
        queue = self.alone if operation.alone else self.shared
        cancelled = timer = None
        try:
            queue.append(operation)
            if not self._has_committer:
                self._find_committer(operation)
            elif self._calls.empty():
                self._calls.put(None)
            if len(self.shared) + len(self.alone) > self._most_waiting:
                room = operation.awaited[1:]
                timer = loop.call_later(self._room_timeout_seconds, wake_futures, room)
            while not operation.is_decided:
                cancelled = (yield from self._awaited(operation)) or cancelled
        except BaseException:
            self._abandon(operation)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if cancelled is not None:
            raise cancelled

    def _awaited(self, operation: Operation[Any]) -> Generator[Any, None, BaseException | None]:
        """Until it is answered, is cancelled, or has found no room for too long."""
        loop, future = operation.awaited
        cancelled = None
        try:
            yield from future
        except BaseException as error:
            if self._took_back(operation) or not isinstance(error, _asyncio()[1]):
                raise
            cancelled = error
        else:
            if not operation.is_decided:
                self._refuse(operation, self._full())
        # Whoever decides it looks for the future afterwards, and so must we for the decision.
        operation.awaited = (loop, loop.create_future())
        return cancelled

    def is_inside(self) -> bool:
        """Whether this thread commits at the moment."""
        return get_ident() in self._committers

    def _took_back(self, operation: Operation[Any]) -> bool:
        """Whether the operation had not been taken, and never will be."""
        operation.is_own = True
        try:
            (self.alone if operation.alone else self.shared).remove(operation)
        except ValueError:
            operation.is_own = False
            return False
        return True

    def _leave(self, operation: Operation[Any], asleep: Any) -> None:
        """An interrupted caller takes its operation back, or waits for the answer.

        Interrupted once more, it goes without: what becomes of the operation is unknown to it.
        """
        was_own = operation.is_own
        try:
            if not self._took_back(operation) and not was_own and not operation.is_decided:
                asleep.acquire()
        except BaseException as error:
            if not operation.is_decided:
                self._abandon(operation)
                raise operation.unknown(error) from error
            raise

    def _abandon(self, operation: Operation[Any]) -> None:
        """Nobody will take the answer, should there be one."""
        if not self._took_back(operation):
            operation.is_abandoned = True

    def _full(self) -> QueueFull:
        return QueueFull(
            f"{self._most_waiting} operations have been waiting to be stored for"
            f" {self._room_timeout_seconds:g} s; slow down, or see what holds up the disk"
        )

    def _refuse(self, operation: Operation[Any], error: StoreError) -> None:
        """Take an operation out of the queue and answer it, unless the committer was quicker."""
        if self._took_back(operation):
            refused = Batch((operation,))
            refused.conclude(error)
            refused.answer()

    def _find_committer(self, operation: Operation[Any]) -> None:
        """Start the committer; where no thread can be started any more, the caller commits."""
        with self._starting:
            if self._is_closed:
                self._refuse(operation, StoreError(_CLOSED))
                return
            if self._may_start and not self._has_committer:
                self._start()
            if self._has_committer:
                self._calls.put(None)
            elif self._took_back(operation):
                self._committers.add(get_ident())
                try:
                    self._run(Batch((operation,)))
                finally:
                    self._committers.discard(get_ident())

    def _start(self) -> None:
        """A daemon: an interpreter that ends waits for it not, what is acknowledged is durable.

        If a signal's exception strikes when it runs and nobody knows it yet, another is started:
        two of them do no harm, for the backend lets one in at a time.
        """
        thread = threading.Thread(target=self._commit_all, name="outlast-commit", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.debug("no thread can be started (%s); the caller commits by itself", error)
        else:
            self._thread, self._has_committer = thread, True

    def _commit_all(self) -> None:
        """What the committer does until the store is closed."""
        self._committers.add(get_ident())
        is_last = False
        while not is_last:
            try:
                self._calls.get()
                # Looked at before the queue is: whoever comes later sees it, too.
                is_last = not self._may_start
                while (batch := self._taken()) is not None:
                    self._run(batch)
                    del batch
            except BaseException as error:
                # There is no memory left, perhaps not even to say so.
                with suppress(BaseException):
                    if self.under_way is not None and not self.under_way.is_answered:
                        self.under_way.conclude(error)
                        self.under_way.answer()
                    log.exception("the committer goes on after an error of its own")
                self._calls.put(None)
        self._committers.discard(get_ident())
        self._calls.put(None)

    def _taken(self) -> Batch | None:
        """The next batch: all that share a transaction, and one that has its own, in turns."""
        while self.shared or self.alone:
            is_alone = bool(self.alone) and (self._was_shared or not self.shared)
            self._was_shared = not is_alone
            queue, most = (self.alone, 1) if is_alone else (self.shared, self._most_waiting)
            members: list[Operation[Any]] = []
            batch = self.under_way = Batch(members)
            while queue and len(members) < most:
                try:
                    members.append(queue.popleft())
                except IndexError:
                    # Somebody took back what was its own meanwhile.
                    break
            if members:
                return batch
        self.under_way = None
        return None

    def _run(self, batch: Batch) -> None:
        """Have the backend commit a batch; whatever it raises, everybody is answered."""
        try:
            self._run_batch(batch)
        except BaseException as error:
            if not batch.undecided():
                log.exception("after a commit that is answered")
            batch.conclude(error)
            if isinstance(error, QueueStalled):
                self._tell_all_who_wait(error)
        finally:
            if not batch.is_answered:
                batch.answer()

    def _tell_all_who_wait(self, error: QueueStalled) -> None:
        """They have waited for the same process, and would do so once more."""
        left = len(self.shared) + len(self.alone)
        while left > 0 and (batch := self._taken()) is not None:
            left -= len(batch.members)
            batch.conclude(error)
            batch.answer()

    def retire(self, timeout_seconds: float | None = None) -> None:
        """The interpreter ends: the committer goes, and callers commit by themselves."""
        with self._starting:
            # In this order: who finds no committer any more must not start another.
            self._has_committer = False
            self._may_start = False
            thread, self._thread = self._thread, None
        self._calls.put(None)
        if thread is not None:
            thread.join(timeout_seconds)

    def close(self) -> None:
        """Commit what waits, refuse what comes later, end the committer."""
        self._is_closed = True
        self.retire()

    def abandon(self) -> None:
        """In a forked child: all that waits, or is under way, stays with the parent."""
        self._is_closed, self._has_committer = True, False
        under_way = () if self.under_way is None else self.under_way.members
        # Whose lock is released was answered before the fork.
        left = Batch(
            [
                one
                for one in (*self.shared, *self.alone, *under_way)
                if one.asleep is None or one.asleep.locked()
            ]
        )
        left.conclude(StoreError(_FORKED))
        left.answer()
