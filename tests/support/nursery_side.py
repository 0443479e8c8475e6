"""The nursery's own end: it has imported the library, opened nothing, and forks for each child.

Every question has a number, which its answer repeats. A birth comes with four descriptors: the
order as a file, standard input, output and error; the answer is the child's pid. A pid without
descriptors asks for that child's burial; the answer is its wait status, or NOBODY.
"""

import json
import os
import signal
import socket
import struct
import sys
import types
from typing import Any

from outlast_lab.forking import ready_to_fork

TALK = struct.Struct("qi")
"""The number of a question, and a pid or what is answered."""
NOBODY = -1
_DESCRIPTORS = 4
_MOST_OPEN = 1024


def next_order(control: socket.socket) -> dict[str, Any]:
    """Fork for each order; returns only in the forks, and ends when nobody asks any more."""
    # Ctrl-C is meant for the tests, which still want to bury their children.
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        asked, descriptors, _, _ = socket.recv_fds(control, TALK.size, _DESCRIPTORS)
        if not asked:
            os._exit(0)
        number, pid = TALK.unpack(asked)
        if descriptors:
            pid = answer = os.fork()
            if pid == 0:
                signal.signal(signal.SIGINT, on_interrupt)
                return _order(control, *descriptors)
            for one in descriptors:
                os.close(one)
        else:
            answer = _status_of(pid)
        control.send(TALK.pack(number, answer))


def _status_of(dead: int) -> int:
    try:
        return os.waitpid(dead, 0)[1]
    except ChildProcessError:
        return NOBODY


def _order(control: socket.socket, file: int, *streams: int) -> dict[str, Any]:
    with open(file, "rb", closefd=False) as order:
        order.seek(0)
        read: dict[str, Any] = json.load(order)
    # What sys.stdin, sys.stdout and sys.stderr use; nothing was read or written by them yet.
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    # Its object must not close, when it goes, what has got the same number by then.
    control.detach()
    os.closerange(3, _MOST_OPEN)
    return read


def become(order: dict[str, Any]) -> None:
    """Be as a process that was started with this program."""
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.path[0] = ""
    sys.argv = ["-c", order["arguments"]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(order["program"], "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    ready_to_fork()
    become(next_order(socket.socket(fileno=int(sys.argv[1]))))
