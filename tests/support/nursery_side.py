"""The nursery's own end: it has imported the library, opened nothing, and forks for each child.

A start from nothing takes a third of a second of imports, and the tests start a thousand children.
An order comes with four descriptors: itself as a file, standard input, output and error; the
answer is the child's pid. A pid without descriptors asks for that child's burial; the answer is its
wait status.
"""

import json
import os
import socket
import struct
import sys
import types
from typing import Any

from outlast.lab.forking import ready_to_fork

NUMBER = struct.Struct("i")
DESCRIPTORS = 4
_LAST_OF_ALL = 1024


def next_order(control: socket.socket) -> dict[str, Any]:
    """Fork for each order; returns only in the forks, and ends when nobody asks any more."""
    while True:
        asked, descriptors, _, _ = socket.recv_fds(control, NUMBER.size, DESCRIPTORS)
        if not asked:
            os._exit(0)
        if not descriptors:
            (dead,) = NUMBER.unpack(asked)
            control.send(NUMBER.pack(os.waitpid(dead, 0)[1]))
            continue
        pid = os.fork()
        if pid == 0:
            return _order(control, *descriptors)
        for one in descriptors:
            os.close(one)
        control.send(NUMBER.pack(pid))


def _order(control: socket.socket, file: int, *streams: int) -> dict[str, Any]:
    with open(file, "rb", closefd=False) as order:
        order.seek(0)
        read: dict[str, Any] = json.load(order)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    # Its object must not close, when it goes, what has got the same number by then.
    control.detach()
    os.closerange(3, _LAST_OF_ALL)
    return read


def become(order: dict[str, Any]) -> None:
    """Be as a process that was started with this program."""
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    sys.argv = ["-c", order["arguments"]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(order["program"], "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    ready_to_fork()
    become(next_order(socket.socket(fileno=int(sys.argv[1]))))
