"""Another process beside the one that plays a case: it uses the store, or a foreign tool on it."""

import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from outlast.app.app import Outlast
from outlast.host import processes
from outlast_lab.record.history import KILLED, LineFile, host_seconds
from outlast_lab.record.recorder import Witness
from outlast_lab.stage.wire import RAISES, Wire, serve

PATIENCE_SECONDS = 30


class Neighbour:
    """A forked process that does what it is told; it has opened nothing before."""

    def __init__(self, path: Path, records: Path, name: str) -> None:
        self.name = name
        self._records = records
        self._wire, theirs = Wire.pair()
        self._wire.give_up_after(PATIENCE_SECONDS)
        sys.stdout.flush()
        case_pid = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            processes.die_with_parent(case_pid)
            self._wire.close()
            _serve(Wire(theirs), path, records, name)
        theirs.close()
        self._is_reaped = False

    def __enter__(self) -> "Neighbour":
        """It lives from the beginning."""
        return self

    def __exit__(self, *details: object) -> None:
        """It does not outlive the case."""
        if not self._is_reaped:
            self.kill()

    def tell(self, verb: str, *arguments: Any) -> Any:
        """Have it do something; its answer, or an error as a text that begins with '!'."""
        self._wire.send([verb, arguments, {}])
        heard = self._wire.receive()
        if heard is None:
            return "! it is gone"
        word, value = heard[0]
        return f"! {value}" if word == RAISES else value

    def sql(self, text: str, *values: Any) -> Any:
        """Have it run a statement by the standard library's sqlite3, which is foreign to us."""
        return self.tell("sql", text, list(values))

    def kill(self) -> None:
        """End it as a crash would; the moment is on the record."""
        record = LineFile(self._records / f"end of {self.name}.jsonl")
        record.write([KILLED, self.name, host_seconds()])
        record.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._is_reaped = True


def _serve(wire: Wire, path: Path, records: Path, name: str) -> None:
    """The process's whole life."""
    try:
        record = LineFile(records / f"{name}.jsonl")
        here = _Here(path, Witness(Outlast(path), name, record.write))
        serve(wire, here.verbs.__getitem__)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


class _Here:
    def __init__(self, path: Path, witness: Witness) -> None:
        self._path = path
        self._witness = witness
        self._leases: dict[str, Any] = {}
        self._connection: sqlite3.Connection | None = None
        self.verbs: dict[str, Callable[..., Any]] = {
            "enqueue": self._enqueue,
            "claim": self._claim,
            "complete": lambda task_id: witness.complete(self._leases[task_id], witness.worker),
            "heal": lambda: witness.app.heal().entries_reclaimed,
            "status": lambda task_id: witness.app.get(task_id).status.value,
            "flush": lambda: witness.flush() is not None,
            "close": witness.close,
            "sql": self._sql,
            "sql and stay": self._sql_and_stay,
            "in another namespace": self._in_another_namespace,
        }

    def _enqueue(self, task_id: str) -> Any:
        task = self._witness.enqueue(task_id)
        return None if task is None else task.id

    def _claim(self) -> list[str]:
        leases = self._witness.claim()
        self._leases |= {lease.task_id: lease for lease in leases}
        return [lease.task_id for lease in leases]

    def _sql(self, text: str, values: list[Any]) -> Any:
        with closing(sqlite3.connect(self._path, timeout=1, isolation_level=None)) as connection:
            return connection.execute(text, values).fetchall()

    def _sql_and_stay(self, texts: list[str]) -> Any:
        self._connection = sqlite3.connect(self._path, timeout=1, isolation_level=None)
        return [self._connection.execute(text).fetchall() for text in texts]

    def _in_another_namespace(self, source: str, target: str) -> None:
        """See the folder at a second place by a bind mount that nobody else sees."""
        from outlast_lab.experiments.misuse.mounting import bind_here

        bind_here(source, target)
        app = Outlast(Path(target) / self._path.name)
        self._witness.app = app
