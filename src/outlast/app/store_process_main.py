"""The program of a worker's store process: it opens the store and serves its worker on a socket."""

import logging
import os
import signal
import socket
from collections import deque
from pathlib import Path

from outlast.app.process_hooks import backend
from outlast.clock import SystemClock
from outlast.errors import OutlastError
from outlast.host import processes
from outlast.logs import fields_of, logger
from outlast.settings import Settings
from outlast.store.records import Principal
from outlast.store.session import Session
from outlast.worker.messages import Begin, Logged, News, Report, Wire, first_message
from outlast.worker.store_process import StoreProcess


class ToTheWorker(logging.Handler):
    """What the store process's own modules log is logged by the worker, whose log people read."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[Logged] = deque()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line for the store process to send: several threads log, only one may write."""
        line = (record.levelno, record.name, record.getMessage(), fields_of(record))
        self.lines.append(line)


def main(descriptor: int) -> None:
    """Serve the worker at the other end of the descriptor until it is gone."""
    # A signal to the whole group is the worker's to answer; its store process ends when it does.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end = socket.socket(fileno=descriptor)
    begin = first_message(end, Begin)
    if begin is None:
        return
    processes.die_with_parent(begin.pid)
    try:
        _serve(end, begin)
    except OutlastError as error:
        Wire(end, Report).send(News(trouble=str(error)))


def _serve(end: socket.socket, begin: Begin) -> None:
    clock, settings = SystemClock(), Settings(**begin.settings)
    principal = Principal(begin.worker, begin.row, begin.incarnation, -1)
    store = backend().serve(Path(begin.path), settings, clock.now(), principal)
    session = Session(store, clock, settings, logger())

    def worker_is_running() -> bool:
        found = processes.process_stat(begin.pid)
        return os.getppid() == begin.pid and (found is None or found[0] not in "TtZX")

    wire = Wire(end, Report)
    root = logging.getLogger("outlast")
    handler = ToTheWorker()
    root.addHandler(handler)
    root.setLevel(begin.log_level)
    try:
        StoreProcess(wire, session, begin, worker_is_running, handler.lines).run()
    finally:
        backend().leave(store, clock.now())
