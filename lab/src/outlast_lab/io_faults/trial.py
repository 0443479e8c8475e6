"""One case, in a process of its own: a life with a fault in it, and what comes after the fault.

When the life has ended the fault is lifted. The same process then goes on with the same store,
puts a task through it, and asks what became of every call whose outcome nobody knew.
"""

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from outlast.app.app import Outlast
from outlast.clock import Clock
from outlast.errors import OutlastError
from outlast_lab import lives
from outlast_lab.history import ANSWERED, ASKS, KILLED, LEFT, Line, LineFile, Write, host_seconds
from outlast_lab.io_faults import side_files, system_calls, vfs
from outlast_lab.io_faults.faults import DEADLY, Fault
from outlast_lab.io_faults.switch import switch
from outlast_lab.witness import Witness

Apps = list[tuple[Outlast, Clock]]

NOTE = "note"
SURVIVOR = "survivor"
_QUEUE = "after the fault"


class UnderWay:
    """Passes lines on, and knows from them which operation is under way and which are unknown."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._open: dict[Any, Line] = {}
        self._workers: set[str] = set()
        self.unknown: dict[str, None] = {}
        self.answered: Callable[[], None] | None = None
        """What is done after each answer."""

    def write(self, line: Line) -> None:
        """One line of the record."""
        asked = None
        if line[0] == ASKS:
            self._open[line[1]] = line
            self._workers.add(line[2])
        elif line[0] == ANSWERED:
            asked = self._open.pop(line[1])
            if line[3] == "unknown":
                self.unknown.update(dict.fromkeys(_ids(asked[4])))
        self._write(line)
        if asked is not None and self.answered is not None:
            self.answered()

    def tell_of_all(self, word: str) -> None:
        """How every worker of this process ended."""
        for worker in self._workers:
            self._write([word, worker, host_seconds()])

    def operation(self) -> str:
        """The verb of the call that is being made; those of a group share a name."""
        verbs = {line[3] for line in list(self._open.values())}
        return verbs.pop() if len(verbs) == 1 else "group" if verbs else "between"


def _ids(arguments: dict[str, Any]) -> Iterable[str]:
    if "leases" in arguments:
        return [task_id for task_id, _ in arguments["leases"]]
    ids: list[str] = arguments.get("ids", [])
    return ids


def remembering_apps() -> Apps:
    """Every Outlast that lives make from now on, with its clock: they keep theirs to themselves."""
    made: Apps = []

    def make(path: Path, *, clock: Clock, **options: Any) -> Outlast:
        app = Outlast(path, clock=clock, **options)
        made.append((app, clock))
        return app

    setattr(lives, "Outlast", make)  # noqa: B010 - a type checker knows it as a class
    return made


def live(life: str, path: Path, fault: Fault | None, record: str) -> None:
    """Drive a life; never returns."""
    file = LineFile(record)
    under_way = UnderWay(file.write)
    apps = remembering_apps()
    vfs.install(fault)
    if fault is None or fault.kind.startswith("side-"):
        side_files.watch(path)
    if fault is not None and fault.how_long == DEADLY:
        under_way.answered = lambda: _die_if_struck(apps, under_way, file)
    switch.turn_on(fault, under_way.operation)
    try:
        lives.LIVES[life].live(path, under_way.write)
    except OutlastError as error:
        # What holds the parts of a life together asks things of the store as well.
        file.write([NOTE, "cut short", str(error)])
    finally:
        switch.turn_off()
    file.write([NOTE, "struck", switch.struck_in])
    file.write([NOTE, "openings", go_on(apps, under_way)])
    file.write([NOTE, "removed", system_calls.removed])
    if fault is None:
        file.write([NOTE, "counted", switch.counted])
    os._exit(0)


def _die_if_struck(apps: Apps, under_way: UnderWay, file: LineFile) -> None:
    """End by SIGKILL at the first answer after the fault, once nothing is unknown any more."""
    if not switch.struck_in:
        return
    switch.turn_off()
    under_way.answered = None
    app, clock = apps[-1]
    one = Witness(app, SURVIVOR, under_way.write, clock)
    for task_id in list(under_way.unknown):
        one.resolve(task_id)
    file.write([NOTE, "struck", switch.struck_in])
    file.write([NOTE, "removed", system_calls.removed])
    under_way.tell_of_all(KILLED)
    os.kill(os.getpid(), signal.SIGKILL)


def go_on(apps: Apps, under_way: UnderWay) -> int:
    """Whether the store serves again: 1 at once, 2 after it was closed and opened, 0 not at all."""
    app, clock = apps[-1]
    one = Witness(app, SURVIVOR, under_way.write, clock)
    for opening in (1, 2):
        if _serves(one, f"after {opening}"):
            for task_id in list(under_way.unknown):
                one.resolve(task_id)
            return opening
        for each, _ in apps:
            one.call("reopen", {}, each.close)
        under_way.tell_of_all(LEFT)
    return 0


def _serves(one: Witness, task_id: str) -> bool:
    """Whether a task goes all the way."""
    one.enqueue(task_id, {"is": "well"}, queue=_QUEUE)
    leases = one.claim(queue=_QUEUE)
    return bool(leases) and all(one.complete(lease, "well") is True for lease in leases)
