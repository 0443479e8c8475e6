"""What a caller waits with: for a change of its own to be durable, and for those of others."""

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


class Future(Protocol[T_co]):
    """A change on its way to the disk: threads ask for its result, coroutines await it.

    It is begun when it is asked for; what comes back has been made durable, as always.
    """

    def result(self) -> T_co:
        """Wait for it, and raise what became of it."""
        ...

    def __await__(self) -> Generator[Any, None, T_co]:
        """Wait for it in a coroutine; cancelled before it was begun, it never happens."""
        ...

    def then(self, finish: Callable[[Callable[[], Any]], U]) -> "Future[U]":
        """A future of what `finish` makes of this one's outcome, in the caller's own thread."""
        ...


class Listener(Protocol):
    """Hears of commits while somebody waits; a hint may be lost, so whoever waits also looks."""

    def wait(self, timeout_seconds: float, descriptor: int = -1) -> bool:
        """Sleep until something was committed, the descriptor can be read, or the time is up."""
        ...

    async def wait_async(self, timeout_seconds: float) -> bool:
        """The same in a coroutine."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...
