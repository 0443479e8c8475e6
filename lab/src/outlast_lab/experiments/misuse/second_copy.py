"""Misuse: something else in this process opens the store's files; the kernel drops our locks."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from outlast_lab.experiments.misuse.scene import Case, Scene
from outlast_lab.record.recorder import Witness

HAMMER_SECONDS = 0.7
REST_SECONDS = 0.02
HOWS = ("sqlite3", "open", "copy", "index")
MOMENTS = ("enqueue.begun", "enqueue.written", "claim.written", "settle.written")


def touch(scene: Scene, how: str) -> None:
    """What a program does that knows nothing of POSIX locks."""
    path = str(scene.path)
    if how == "sqlite3":
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("SELECT count(*) FROM tasks").fetchone()
    elif how == "open":
        with open(path, "rb"):
            pass
    elif how == "copy":
        shutil.copy(path, f"{path}.copied")
    else:
        os.close(os.open(f"{path}-shm", os.O_RDONLY))


def _prepared(scene: Scene) -> tuple[Witness, Callable[[str], object]]:
    """A store with a task in hand and one that waits, and what to do at each kind of moment."""
    witness = scene.witness()
    for task_id in ("held", "waiting"):
        scene.must_do(lambda task_id=task_id: witness.enqueue(task_id))  # type: ignore[misc]
    (lease,) = scene.must_do(witness.claim)
    verbs: dict[str, Callable[[], object]] = {
        "enqueue": lambda: witness.enqueue("new"),
        "claim": witness.claim,
        "settle": lambda: witness.complete(lease, "done"),
    }
    return witness, lambda moment: verbs[moment.partition(".")[0]]()


def touched_within(how: str, moment: str) -> Callable[[Scene], None]:
    """Touched inside a transaction: nothing of it is stored, and the next one goes through."""

    def act(scene: Scene) -> None:
        witness, do = _prepared(scene)
        with scene.at(moment, lambda: touch(scene, how)):
            scene.must_refuse("SecondSqliteCopy", lambda: do(moment), "nothing was stored")
        scene.must_do(lambda: do(moment))
        witness.close()

    return act


def touched_between(how: str) -> Callable[[Scene], None]:
    """Touched between two operations: one is refused at most, and then it goes on."""

    def act(scene: Scene) -> None:
        witness, do = _prepared(scene)
        touch(scene, how)
        scene.must_refuse(("SecondSqliteCopy", "StoreReplaced"), lambda: do("enqueue"))
        witness.open()
        scene.must_do(lambda: do("enqueue"))
        scene.must_do(lambda: do("settle"))
        witness.close()

    return act


def hammered(how: str) -> Callable[[Scene], None]:
    """Another thread touches the file again and again while three write and one reads."""

    def act(scene: Scene) -> None:
        witness = scene.witness()
        scene.must_do(witness.open)
        ends_at = time.monotonic() + HAMMER_SECONDS
        threads = [
            threading.Thread(target=_write, args=(witness.named(f"w{n}"), ends_at))
            for n in range(3)
        ]
        odd: list[str] = []
        threads.append(threading.Thread(target=_read, args=(witness, ends_at, odd)))
        for thread in threads:
            thread.start()
        while time.monotonic() < ends_at:
            touch(scene, how)
            time.sleep(REST_SECONDS)
        for thread in threads:
            thread.join()
        odd += [said for said in scene.refusals if not said.startswith("SecondSqliteCopy: ")]
        scene.must(scene.refusals and not odd, f"the threads were told: {odd or 'nothing'}")
        # The last touch may have come after the last write: the next operation is refused for it.
        witness.enqueue("perhaps")
        scene.must_do(lambda: witness.enqueue("afterwards"))
        witness.close()

    return act


def _write(witness: Witness, ends_at: float) -> None:
    number = 0
    while time.monotonic() < ends_at:
        witness.enqueue(f"{witness.worker}:{number}")
        number += 1


def _read(witness: Witness, ends_at: float, odd: list[str]) -> None:
    while time.monotonic() < ends_at:
        try:
            witness.app.counts()
        except Exception as error:
            odd.append(repr(error))


def other_files(scene: Scene) -> None:
    """sqlite3 on files that are not ours, inside our transactions."""

    def use_another() -> None:
        with closing(sqlite3.connect(scene.folder / "other.db")) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS t (x)")

    witness, do = _prepared(scene)
    for moment in ("enqueue.written", "settle.written"):
        with scene.at(moment, use_another):
            scene.must_do(lambda moment=moment: do(moment))  # type: ignore[misc]
    witness.close()


def cases() -> Iterator[tuple[str, Case]]:
    """All of them by name."""
    within = "is refused by SecondSqliteCopy and stores nothing; the same call then goes through"
    between = "refuses the next operation and goes on after that"
    for moment in MOMENTS:
        for how in HOWS:
            yield f"second copy: {how} at {moment}", Case(within, touched_within(how, moment))
    for how in ("sqlite3", "open", "copy"):
        yield f"second copy: {how} between operations", Case(between, touched_between(how))
    for how in ("sqlite3", "open"):
        must = "loses nothing that was acknowledged, and goes on"
        yield f"second copy: {how} in another thread", Case(must, hammered(how))
    yield "second copy: sqlite3 on other files", Case("is nobody's business", other_files)
