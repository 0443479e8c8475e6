"""Where a case of misuse plays: a folder, a store in it, and the record of what was answered."""

import os
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from outlast import probes
from outlast.app.app import Outlast
from outlast.errors import OutlastError
from outlast.host import processes
from outlast.settings import Settings
from outlast_lab.experiment import Broken
from outlast_lab.experiments.misuse.neighbour import Neighbour
from outlast_lab.record.history import ANSWERED, Line, LineFile
from outlast_lab.record.recorder import Witness

LONGEST_SENTENCE = 700

Names = str | tuple[str, ...]


class NotHere(Exception):
    """The case cannot be played on this machine; says why."""


class Case(NamedTuple):
    """What must happen, in words; the act itself; and how the store is judged afterwards.

    `all` holds the record against the store. Where the misuse itself takes acknowledged work away,
    as deleting the file does, the file alone can be judged, or nothing at all.
    """

    must: str
    act: "Callable[[Scene], None]"
    judged: Literal["all", "file", "nothing"] = "all"


class Scene:
    """What a case is given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "work.db"
        self.records = folder / "records"
        self.refusals: list[str] = []
        self._files: dict[int, LineFile] = {}
        self._last = threading.local()

    # Who takes part

    def witness(self, worker: str = "w", path: Path | None = None, **settings: Any) -> Witness:
        """An app of this process, with a record."""
        app = Outlast(path or self.path, settings=Settings(**settings))
        return Witness(app, worker, self.write)

    def neighbour(self, name: str = "neighbour", path: Path | None = None) -> Neighbour:
        """Another process, which must be asked for before this one opens anything."""
        self.records.mkdir(exist_ok=True)
        return Neighbour(path or self.path, self.records, name)

    def write(self, line: Line) -> None:
        """Where the record goes: a file for each process, for a case may fork."""
        pid = os.getpid()
        if pid not in self._files:
            self.records.mkdir(exist_ok=True)
            self._files[pid] = LineFile(self.records / f"case {pid}.jsonl")
        if line[0] == ANSWERED:
            self._last.outcome, self._last.value = line[3], line[4]
            if line[3] != "done":
                self.refusals.append(str(line[4]))
        self._files[pid].write(line)

    # What must be

    def must(self, fact: object, otherwise: str) -> None:
        """Broken, with these words, unless it is so."""
        if not fact:
            raise Broken(otherwise)

    def must_do(self, act: Callable[[], Any]) -> Any:
        """A call of a witness that must be acknowledged; what it returned."""
        value = act()
        if self._last.outcome != "done":
            raise Broken(f"was not done: {self._last.value}")
        return value

    def must_refuse(self, names: Names, act: Callable[[], Any], says: str = "") -> str:
        """A call of a witness that must raise one of these errors, in one sentence with a word."""
        act()
        if self._last.outcome not in ("refused", "unknown"):
            raise Broken(f"was {self._last.outcome} instead of refused: {self._last.value}")
        return self._sentence(names, str(self._last.value), says)

    def must_raise(self, names: Names, act: Callable[[], Any], says: str = "") -> str:
        """The same for a call that is not on the record."""
        try:
            value = act()
        except OutlastError as error:
            return self._sentence(names, f"{type(error).__name__}: {error}", says)
        raise Broken(f"was answered with {value!r} instead of refused")

    def _sentence(self, names: Names, said: str, says: str) -> str:
        wanted = (names,) if isinstance(names, str) else names
        name, _, sentence = said.partition(": ")
        if name not in wanted:
            raise Broken(f"was refused by {said}, and not by {' or '.join(wanted)}")
        if "\n" in sentence or not 10 < len(sentence) < LONGEST_SENTENCE:
            raise Broken(f"was refused in words that are no sentence: {sentence!r}")
        if says not in sentence:
            raise Broken(f"was refused without the words {says!r}: {sentence}")
        return sentence

    # Moments

    @contextmanager
    def at(self, probe: str, act: Callable[[], Any]) -> Iterator[None]:
        """Do something once, when a named point of the code is passed; it must be."""
        reached: list[str] = []

        def once(name: str) -> None:
            if name == probe and not reached:
                reached.append(name)
                act()

        probes.arm(once)
        try:
            yield
        finally:
            probes.arm(None)
        self.must(reached, f"{probe} was not passed")

    def in_a_process(self, act: Callable[[], object]) -> int:
        """Do it in a process of its own and wait; how it ended, as os.waitpid tells."""
        return os.waitpid(self.fork(act), 0)[1]

    def fork(self, act: Callable[[], object]) -> int:
        """Fork from whatever this process is in the middle of; the pid of the child."""
        case_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                processes.die_with_parent(case_pid)
                act()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        return pid


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of all that lies in a folder."""
    found = ((str(file), file.lstat()) for file in sorted(folder.rglob("*")))
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]
