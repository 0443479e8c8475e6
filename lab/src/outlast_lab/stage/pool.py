"""Some fork servers that share an experiment's work."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any, NamedTuple, Self

from outlast_lab.stage.fork_server import ForkServer


class Order(NamedTuple):
    """Something for one of them to do."""

    verb: str
    arguments: dict[str, Any]


def as_many_as_processors(at_most: int) -> int:
    """How many servers there is work for at the same time."""
    return min(at_most, len(os.sched_getaffinity(0)))


class Pool:
    """Fork servers that can all do the same; they are started one by one, and ended here."""

    def __init__(self, servers: Iterable[ForkServer], goodbye_seconds: float | None = None) -> None:
        """`goodbye_seconds`: when interrupted, they may end their work in their own way first."""
        self._goodbye_seconds = goodbye_seconds
        self._servers: list[ForkServer] = []
        self._idle: SimpleQueue[ForkServer] = SimpleQueue()
        try:
            for server in servers:
                self._servers.append(server)
                self._idle.put(server)
            self._threads = ThreadPoolExecutor(len(self._servers))
        except BaseException:
            for server in self._servers:
                server.kill()
                server.close()
            raise

    def __enter__(self) -> Self:
        """They are ready when they answer."""
        return self

    def __exit__(self, kind: object, *details: object) -> None:
        """End all of them; whoever was interrupted does not wait for what is under way."""
        for server in self._servers if kind is not None else ():
            if self._goodbye_seconds is None:
                server.kill()
            else:
                server.terminate(self._goodbye_seconds)
        self._threads.shutdown(cancel_futures=True)
        for server in self._servers:
            server.close()

    def do(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Any]]:
        """Have orders carried out, and tell the answers as they come; none is asked for early."""
        under_way: dict[Future[Any], Order] = {}
        left = iter(orders)
        is_over = False
        while under_way or not is_over:
            while not is_over and len(under_way) <= len(self._servers):
                order = next(left, None)
                if order is None:
                    is_over = True
                else:
                    under_way[self._threads.submit(self._do, order)] = order
            if under_way:
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for one in done:
                    yield under_way.pop(one), one.result()

    def _do(self, order: Order) -> Any:
        server = self._idle.get()
        try:
            return server.ask(order.verb, **order.arguments)
        finally:
            self._idle.put(server)
