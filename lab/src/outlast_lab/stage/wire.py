"""How processes on the stage talk: JSON, a line each, over a socket that can carry descriptors.

A request is [verb, arguments, options]. What follows it is any number of [SAYS, value], from the
server or one of its forks, and then one [ANSWERS, value] or [RAISES, text].
"""

import json
import select
import socket
from collections.abc import Callable
from typing import Any

SAYS, ANSWERS, RAISES = "says", "answers", "raises"

_CHUNK_BYTES = 1 << 18
_LINE_END = b"\n"


class Wire:
    """One end of it."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._held = bytearray()

    @classmethod
    def pair(cls) -> "tuple[Wire, socket.socket]":
        """An end for this process, and one to be handed to another."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours), theirs

    def send(self, value: Any, *descriptors: int) -> None:
        """Send a value; one that a killed process sent is there whole or not at all, if short."""
        line = json.dumps(value).encode() + _LINE_END
        sent = socket.send_fds(self._socket, [line], descriptors) if descriptors else 0
        self._socket.sendall(line[sent:])

    def receive(self) -> tuple[Any, list[int]] | None:
        """The next value and what came with it; None when nobody is left to send one."""
        descriptors: list[int] = []
        end = self._held.find(_LINE_END)
        while end < 0:
            begun = len(self._held)
            data, more, _, _ = socket.recv_fds(self._socket, _CHUNK_BYTES, 1)
            if not data:
                return None
            descriptors += more
            self._held += data
            end = self._held.find(_LINE_END, begun)
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return json.loads(line), descriptors

    def has_something(self, within_seconds: float) -> bool:
        """Whether there is something to be received, or never will be."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(self._held) or bool(poll.poll(within_seconds * 1000))

    def give_up_after(self, seconds: float) -> None:
        """Raise TimeoutError from then on when something takes longer."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Let go."""
        self._socket.close()


def serve(wire: Wire, find: Callable[[str], Callable[..., Any]]) -> None:
    """Do what is asked, by the function that each verb finds, until nobody asks any more.

    Descriptors that come with a request are the first arguments.
    """
    while (heard := wire.receive()) is not None:
        (verb, arguments, options), descriptors = heard
        try:
            answer = [ANSWERS, find(verb)(*descriptors, *arguments, **options)]
        except Exception as error:
            answer = [RAISES, f"{type(error).__name__}: {error}"]
        wire.send(answer)
