"""Misuse: the store's files are removed, replaced or moved under a living process."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from outlast_lab.experiments.misuse.scene import Case, Scene

Judged = Literal["all", "file", "nothing"]


def _renamed_over(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"")
    os.rename(other, path)


def _side(path: Path) -> Path:
    return path.with_name(f"{path.name}-outlast")


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _index(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


def _move(path: Path) -> None:
    """Move the store away, as somebody would who tidies up."""
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    for file in sorted(path.parent.glob(f"{path.name}*")):
        os.rename(file, elsewhere / file.name)


def _restore_older(path: Path) -> None:
    """Put an older state of the database in its place."""
    older = path.with_name("older")
    shutil.copy(path, older)
    os.rename(older, path)


# What is done, and what can be judged afterwards: what was in a file that is gone is gone.
TRICKS: dict[str, tuple[Callable[[Path], None], Judged]] = {
    "the log is removed": (lambda path: _log(path).unlink(), "all"),
    "the log is replaced": (lambda path: _renamed_over(_log(path)), "all"),
    "the index of the log is removed": (lambda path: _index(path).unlink(), "all"),
    "the openers' lock is removed": (lambda path: (_side(path) / "openers").unlink(), "all"),
    "the side folder is removed": (lambda path: shutil.rmtree(_side(path)), "all"),
    "the database is removed": (lambda path: path.unlink(), "file"),
    "the database is replaced by nothing": (_renamed_over, "file"),
    "the database is replaced by an older copy": (_restore_older, "file"),
    "the store is moved": (_move, "file"),
}
DURING = (
    "the log is removed",
    "the log is replaced",
    "the openers' lock is removed",
    "the database is removed",
    "the database is replaced by nothing",
)
GONE = ("the database is removed", "the database is replaced by nothing")
# How many calls of each process are answered before two lose the log.
TOLD_BEFORE = 4
# So long that the folders are known by their times.
REST_SECONDS = 0.15
# Longer than what a look at the files is good for.
LOOK_SECONDS = 0.005
MOMENTS = ("enqueue.begun", "enqueue.written", "enqueue.committed")


def _between_two_looks(trick: Callable[[], None]) -> None:
    """The files are looked at once a millisecond; what is done sooner after a look than that is
    noticed after the commit, as `during` shows."""
    trick()
    time.sleep(LOOK_SECONDS)


def between(trick: Callable[[Path], None]) -> Callable[[Scene], None]:
    """Every verb is refused from then on; what is there can be opened anew, by a decision."""

    def act(scene: Scene) -> None:
        witness = scene.witness()
        for task_id in ("held", "waiting"):
            witness.enqueue(task_id)
        (lease,) = scene.must_do(witness.claim)
        _between_two_looks(lambda: trick(scene.path))
        scene.must_refuse("StoreReplaced", lambda: witness.complete(lease, "lost"))
        witness.app.close()
        scene.must_do(witness.open)
        scene.must_do(lambda: witness.enqueue("found"))
        witness.close()

    return act


def stays_refused(trick: Callable[[Path], None]) -> Callable[[Scene], None]:
    """A new, empty store in the old one's place must be somebody's decision."""

    def act(scene: Scene) -> None:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue("a"))
        _between_two_looks(lambda: trick(scene.path))
        for number in range(2):
            scene.must_refuse("StoreReplaced", partial(witness.enqueue, f"lost {number}"))
            scene.must_raise("StoreReplaced", partial(witness.app.get, "a"))
        witness.app.close()
        scene.must_do(lambda: witness.enqueue("anew"))
        witness.close()

    return act


def refuses_each(verb: str, trick: Callable[[Path], None]) -> Callable[[Scene], None]:
    """The first thing that is asked after the trick is refused, whatever it is."""

    def act(scene: Scene) -> None:
        witness = scene.witness()
        witness.enqueue("waiting")
        _between_two_looks(lambda: trick(scene.path))
        verbs: dict[str, Callable[[], object]] = {
            "enqueue": lambda: witness.enqueue("lost"),
            "claim": witness.claim,
            "cancel": lambda: witness.cancel("waiting"),
        }
        scene.must_refuse("StoreReplaced", verbs[verb])
        witness.app.close()
        scene.must_do(witness.open)
        witness.close()

    return act


def during(
    trick: Callable[[Path], None], moment: str, rest_seconds: float = 0
) -> Callable[[Scene], None]:
    """Noticed before the acknowledgement: the outcome is unknown, and resolve() knows it.

    Folders that were quiet for a while are known by their times, and no file is looked at.
    """

    def act(scene: Scene) -> None:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue("before"))
        time.sleep(rest_seconds)
        scene.must_do(lambda: witness.enqueue("after a rest"))
        with scene.at(moment, lambda: trick(scene.path)):
            said = scene.must_refuse("OutcomeUnknown", lambda: witness.enqueue("doubtful"))
        scene.must("resolve" in said and "doubtful" in said, f"it does not name the task: {said}")
        scene.must_do(witness.open)
        scene.must_do(lambda: witness.resolve("doubtful"))
        scene.must_do(lambda: witness.enqueue("found"))
        witness.close()

    return act


def log_survives(*names: str) -> Callable[[Scene], None]:
    """What unlinked files hold is moved into the database before we let go of them."""

    def act(scene: Scene) -> None:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue_many(["a", "b", "c"], [1, 2, 3]))
        (lease,) = scene.must_do(witness.claim)
        for name in names:
            scene.path.with_name(name).unlink()
        time.sleep(LOOK_SECONDS)
        scene.must_refuse(("StoreReplaced", "OutcomeUnknown"), lambda: witness.enqueue("d"))
        scene.must_do(lambda: witness.complete(lease, "done"))
        scene.must_do(lambda: witness.enqueue("next"))
        found = {task.id for task in witness.app.tasks()}
        scene.must(found >= {"a", "b", "c", "next"}, f"there is {found}")

    return act


def log_is_gone_at_the_end(scene: Scene) -> None:
    """Nobody writes any more: what the unlinked log holds is saved by closing."""
    witness = scene.witness()
    scene.must_do(lambda: witness.enqueue_many(["a", "b", "c"], [1, 2, 3]))
    scene.must_do(witness.claim)
    _log(scene.path).unlink()
    witness.app.close()


def two_lose_the_log(scene: Scene) -> None:
    """The first to find out moves what both have written; the other has nothing left to save."""
    with scene.neighbour() as other:
        witness = scene.witness()
        for number in range(12):
            if number == TOLD_BEFORE:
                _log(scene.path).unlink()
                _index(scene.path).unlink()
            witness.enqueue(f"ours {number}")
            told = other.tell("enqueue", f"theirs {number}")
            if number < TOLD_BEFORE:
                scene.must(told and not scene.refusals, "was refused before anything happened")


def index_of_another(scene: Scene) -> None:
    """Another process makes a new index of the log: both would write to the same place in it."""
    with scene.neighbour() as other:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue("ours"))
        _index(scene.path).unlink()
        scene.must(other.tell("enqueue", "theirs") == "theirs", "the other cannot store")
        scene.must_refuse("StoreReplaced", lambda: witness.enqueue("lost"))


def folder_moves(scene: Scene) -> None:
    """The whole folder gets another name while a process has the store open."""
    home = scene.folder / "home"
    home.mkdir()
    witness = scene.witness(path=home / "work.db")
    scene.must_do(lambda: witness.enqueue("before"))
    os.rename(home, scene.folder / "moved")
    scene.must_refuse(("StoreReplaced", "StoreUnwritable"), lambda: witness.enqueue("after"))
    witness.app.close()
    again = scene.witness("again", scene.folder / "moved" / "work.db")
    scene.must([task.id for task in again.app.tasks()] == ["before"], "the task did not move along")
    scene.must_do(lambda: again.enqueue("there"))
    again.close()


def cases() -> Iterator[tuple[str, Case]]:
    """All of them by name."""
    refused = "is refused by StoreReplaced before anything is acknowledged; then it opens anew"
    unknown = "raises OutcomeUnknown with the task's id, and resolve() tells the truth"
    for name, (trick, judged) in TRICKS.items():
        yield f"files: {name}", Case(refused, between(trick), judged)
    for name in DURING:
        trick, judged = TRICKS[name]
        for verb in ("enqueue", "claim", "cancel"):
            yield f"files: {verb} after {name}", Case(refused, refuses_each(verb, trick), judged)
        for moment in MOMENTS:
            yield f"files: {name} at {moment}", Case(unknown, during(trick, moment), judged)
        for moment in ("enqueue.begun", "enqueue.committed"):
            rested = during(trick, moment, REST_SECONDS)
            yield f"files: {name} at {moment} after a rest", Case(unknown, rested, judged)
    for name in GONE:
        trick, judged = TRICKS[name]
        must = "stays refused until it is closed"
        yield f"files: {name} for good", Case(must, stays_refused(trick), judged)
    outlives = "outlives its file"
    log, index = "work.db-wal", "work.db-shm"
    yield "files: what a removed log holds", Case(outlives, log_survives(log))
    yield "files: what removed log and index hold", Case(outlives, log_survives(log, index))
    yield "files: what removed index and log hold", Case(outlives, log_survives(index, log))
    yield "files: what a removed log holds at the end", Case(outlives, log_is_gone_at_the_end)
    yield "files: two lose log and index", Case(outlives, two_lose_the_log)
    yield "files: another process makes a new index", Case(refused, index_of_another)
    yield (
        "files: the folder is moved",
        Case("is refused where it was, and whole where it is", folder_moves, "nothing"),
    )
