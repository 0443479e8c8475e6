"""The program behind an isolated slot: it forks the handler's process and stands over it.

The worker starts this file as a program. It runs none of the user's code, so it is never too busy
to notice that its worker is gone: then, or when the handler's process has ended, it kills the
whole process group, whatever the handler had started included. That the handler is forked here,
and not started by the worker itself, is also what makes its peak of memory its own: the kernel
counts what a process had before `exec`, and that was the worker's memory.
"""

import os
import select
import signal
import socket
import sys
from typing import NoReturn

# Sent to all processes of a service that stops. When handlers stop, their worker says.
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_LOOK_MS = 50
_LOOK_AT_WORKER_MS = 500
_END_OF_PATH = b"\0\0"


def main(arguments: list[str]) -> None:
    """Find the library where the worker found it, then divide into keeper and handler."""
    wire, report, lock, worker_pid = (int(one) for one in arguments)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in STOPPING:
        signal.signal(number, _do_nothing)
    for descriptor in (wire, report, lock):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    told = socket.socket(fileno=report)
    sys.path[:] = _path_from(told)
    # Imported before the fork, the library is in memory once for both processes.
    from outlast.worker.isolation import child

    keeper_pid = os.getpid()
    handler_pid = os.fork()
    if handler_pid == 0:
        told.close()
        child.serve(wire, lock, keeper_pid)
    else:
        os.close(wire)
        _stand_over(handler_pid, told, worker_pid)


def _do_nothing(number: int, frame: object) -> None:
    """Unlike being ignored, being handled is not inherited by what a handler starts."""


def path_message(path: list[str]) -> bytes:
    """The module search path as the keeper reads it."""
    absolute = [os.fsencode(one or os.getcwd()) for one in path]
    return b"\0".join(absolute) + _END_OF_PATH


def _path_from(told: socket.socket) -> list[str]:
    message = b""
    while not message.endswith(_END_OF_PATH):
        chunk = told.recv(1 << 16)
        if not chunk:
            raise SystemExit("the worker went away before it said where its modules are")
        message += chunk
    return [os.fsdecode(one) for one in message[: -len(_END_OF_PATH)].split(b"\0")]


def _stand_over(handler_pid: int, told: socket.socket, worker_pid: int) -> NoReturn:
    try:
        ended = handlers_end(handler_pid, worker_pid)
        if ended is not None:
            told.sendall(ended)
    finally:
        os.killpg(0, signal.SIGKILL)
    raise AssertionError("killed by its own signal")


def handlers_end(handler_pid: int, worker_pid: int) -> bytes | None:
    """The handler's exit status and peak memory, once it has ended; None if the worker has."""
    from outlast.host import memory, processes

    watched = [processes.process_descriptor(pid) for pid in (handler_pid, worker_pid)]
    poll = select.poll()
    for descriptor in watched:
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    # Without descriptors of processes, nothing but looking tells that one has ended.
    pause_ms = _LOOK_MS if None in watched else _LOOK_AT_WORKER_MS
    is_frozen = False
    while os.getppid() == worker_pid:
        poll.poll(pause_ms)
        # A stopped worker's leases run out, and its handler must not run beside their next holder.
        if is_frozen != (processes.process_state_word(worker_pid) == "stopped"):
            is_frozen = not is_frozen
            os.kill(handler_pid, signal.SIGSTOP if is_frozen else signal.SIGCONT)
        pid, status, usage = os.wait4(handler_pid, os.WNOHANG)
        if pid:
            return b"%d %d\n" % (status, memory.maxrss_bytes(usage.ru_maxrss))
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
