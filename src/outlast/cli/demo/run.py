"""What `outlast demo` does: a worker is killed in the middle of its work, another one goes on.

Everything here is real: the processes, the signal, the store. What is claimed in the end is
checked against the store's history and against a journal that the tasks themselves kept.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import cycle, islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import click

from outlast.cli.demo import jobs
from outlast.cli.output.text import now

if TYPE_CHECKING:
    from outlast import Move, Outlast, Task

DEADLINE_SECONDS = 120.0
_POLL_SECONDS = 0.01
_GOODBYE_SECONDS = 2.0
_SHARE_BEFORE_THE_KILL = 0.4


class Stage:
    """A store in a folder of its own, and the workers on it; nothing of either is left behind."""

    def __init__(self) -> None:
        from outlast import Outlast, Settings

        self.folder = Path(tempfile.mkdtemp(prefix="outlast-demo-"))
        # The demo only looks on: it is for the second worker to find out that the first is dead.
        onlooker = Settings(detection_interval_seconds=0)
        self.app: Outlast = Outlast(self.folder / jobs.STORE, settings=onlooker)
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._started:
            kill(process)
        self.app.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(self, count: int) -> dict[str, Path]:
        """Enqueue a task for each of so many texts; returns the texts by the tasks' ids."""
        sources = sorted(Path(jobs.__file__).parents[1].rglob("*.py"))
        texts = list(islice(cycle(sources), count))
        payloads = [{"path": str(text)} for text in texts]
        ids = self.app.enqueue_many(jobs.fingerprint.kind, payloads)
        return dict(zip(ids, texts, strict=True))

    def start(self, name: str) -> "subprocess.Popen[bytes]":
        """Start a worker in a process of its own, by the command that anybody would use."""
        program = [sys.executable, "-m", "outlast", "worker", "run", jobs.__name__]
        kept = {name: text for name, text in os.environ.items() if not name.startswith("OUTLAST_")}
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*program, "--until-empty", "--name", name],
                cwd=self.folder,
                env=kept,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def wait_for_the_middle(self, worker: "subprocess.Popen[bytes]", count: int) -> None:
        """Until the worker has done a part of its tasks and is at work on others."""
        enough = max(1, int(count * _SHARE_BEFORE_THE_KILL))

        def is_there() -> bool:
            counts = self.app.counts()
            return counts["completed"] >= enough and counts["running"] > 0

        self._wait(is_there, worker)

    def wait_for_the_end(self, worker: "subprocess.Popen[bytes]") -> None:
        """Until the worker has nothing left to do, and has left."""
        self._wait(lambda: worker.poll() is not None, worker)
        if worker.returncode != 0:
            raise self._trouble(worker)

    def _wait(self, is_there: Callable[[], bool], worker: "subprocess.Popen[bytes]") -> None:
        until = time.monotonic() + DEADLINE_SECONDS
        while not is_there():
            if worker.poll() is not None and not is_there():
                raise self._trouble(worker)
            if time.monotonic() > until:
                raise click.ClickException(
                    f"the demo was not done within {DEADLINE_SECONDS:g} s; try --tasks 20"
                )
            time.sleep(_POLL_SECONDS)

    def _trouble(self, worker: "subprocess.Popen[bytes]") -> click.ClickException:
        logs = sorted(self.folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
        text = logs[-1].read_text(errors="replace").strip() if logs else ""
        last = text.splitlines()[-1] if text else "it said nothing"
        return click.ClickException(
            f"a worker ended with code {worker.returncode} before its part was played ({last});"
            " call the demo again"
        )

    def begun_by(self, pid: int) -> set[str]:
        """The tasks that a worker's process began, by their own journal."""
        lines = (self.folder / jobs.JOURNAL).read_text().splitlines()
        pairs = (line.split() for line in lines)
        return {pair[1] for pair in pairs if len(pair) == 2 and pair[0] == str(pid)}


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process of ours by SIGKILL, if it has not ended yet, and see its helpers out.

    They end by themselves, but one of them may be in the middle of a commit.
    """
    helpers = _children_of(process.pid) if process.poll() is None else []
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()
    until = time.monotonic() + _GOODBYE_SECONDS
    while not all(_has_ended(pid) for pid in helpers) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)


def _children_of(pid: int) -> list[int]:
    """The processes that a process has started, where the kernel tells."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or a corpse that nobody has reaped yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


class Scene(NamedTuple):
    """The store right after the kill."""

    killed_at: datetime
    completed: frozenset[str]
    held: frozenset[str]
    begun: frozenset[str]

    @property
    def hit(self) -> str | None:
        """A task whose work was cut short."""
        return min(self.held & self.begun, default=None)


def scene_after(stage: Stage, killed_at: datetime, pid: int) -> Scene:
    """What is done, what the dead process holds, and what it had begun."""
    return Scene(
        killed_at,
        frozenset(_ids(stage.app, "completed")),
        frozenset(_ids(stage.app, "running")),
        frozenset(stage.begun_by(pid)),
    )


def _ids(app: "Outlast", status: str) -> list[str]:
    return [task.id for task in app.tasks(status=status, limit=10_000)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of all tasks, in figures, and the life of one that was hit."""

    tasks: int
    done_before: int
    put_back: int
    begun: int
    done_after: int
    lost: int
    done_twice: int
    back_seconds: float | None
    hit: "Task | None"
    moves: tuple["Move", ...]

    @property
    def claim_held(self) -> bool:
        """Nothing lost, nothing that was done done again, and all that was held put back."""
        return self.lost == 0 and self.done_twice == 0


def outcome_of(stage: Stage, texts: dict[str, Path], scene: Scene, second_pid: int) -> Outcome:
    """Hold the end against the scene: by the store's history, and by the journal of the tasks."""
    app = stage.app
    histories = {task_id: app.history(task_id) for task_id in texts}
    done = {task_id for task_id, text in texts.items() if _is_done(app.get(task_id), text)}
    again = stage.begun_by(second_pid)
    twice = {task_id for task_id, moves in histories.items() if _times(moves, "completed") > 1}
    twice |= scene.completed & again
    back = [task_id for task_id in scene.held if _times(histories[task_id], "pending") > 0]
    hit = scene.hit
    return Outcome(
        tasks=len(texts),
        done_before=len(scene.completed),
        put_back=len(back),
        begun=len(scene.held & scene.begun),
        done_after=len(done - scene.completed),
        lost=len(texts) - len(done),
        done_twice=len(twice),
        back_seconds=_seconds_until_back(scene, (histories[task_id] for task_id in back)),
        hit=None if hit is None else app.get(hit),
        moves=() if hit is None else tuple(histories[hit]),
    )


def _is_done(task: "Task", text: Path) -> bool:
    return task.status == "completed" and task.result["words"] == jobs.words(text.read_bytes())


def _times(moves: Iterable["Move"], status: str) -> int:
    return sum(move.to_status == status for move in moves)


def _seconds_until_back(scene: Scene, histories: Iterable[list["Move"]]) -> float | None:
    """From the kill until the first of the tasks was put back."""
    moments = [move.at for moves in histories for move in moves if move.to_status == "pending"]
    return (min(moments) - scene.killed_at).total_seconds() if moments else None


def moment() -> datetime:
    """Now, by the clock that the store's history goes by."""
    return now()
