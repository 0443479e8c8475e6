"""A list of every task at one moment, handed out one by one while others go on writing."""

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Self

from outlast.domain.task import Task, Waits

if TYPE_CHECKING:
    from outlast.store.ops.listing import Listing


class Snapshot:
    """An iterator over tasks of one moment; reading it to its end closes it, as `with` does."""

    def __init__(self, listing: "Listing", waits: Waits) -> None:
        self._listing = listing
        self._waits = waits
        self._ready: deque[Task] = deque()
        self._is_over = False

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> Task:
        """The next older task."""
        if not self._ready:
            self._ready.extend(self.more())
        if not self._ready:
            raise StopIteration
        return self._ready.popleft()

    def more(self) -> list[Task]:
        """The next few tasks at once; none at the end."""
        if self._is_over:
            return []
        tasks = self._listing.more()
        self._is_over = not tasks
        return [task.waiting_by(self._waits) for task in tasks]

    def close(self) -> None:
        """Let go of the moment; what was not read is not read any more."""
        self._is_over = True
        self._ready.clear()
        self._listing.close()

    def __enter__(self) -> Self:
        """To be closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
