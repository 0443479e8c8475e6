"""Misuse: a process forks while it has the store open, is inside a transaction, or holds tasks."""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from outlast.store import opening
from outlast_lab.experiments.misuse.scene import Case, Scene
from outlast_lab.record.recorder import Witness

WAIT_SECONDS = 30
FORKS = 10
WRITERS = 8
IMPATIENCE_SECONDS = 0.05
MIDST = "in the middle of an operation when this process was forked"


def child_uses_the_object(scene: Scene) -> None:
    """Inherited leases are refused, all else works, and the parent's lease stays the parent's."""
    witness = scene.witness()
    witness.enqueue_many(["parents", "childs", "left"], [0, 1, 2])
    (lease,) = scene.must_do(witness.claim)

    def in_the_child() -> None:
        other = witness.named("child")
        for verb in (other.complete, other.renew, other.release, other.start):
            scene.must_refuse("LeaseInherited", partial(verb, lease))
        (own,) = scene.must_do(other.claim)
        scene.must_do(lambda: other.complete(own, "by the child"))
        other.close()

    scene.must(scene.in_a_process(in_the_child) == 0, "the child could not do its part")
    scene.must_do(lambda: witness.renew(lease))
    scene.must_do(lambda: witness.complete(lease, "by the parent"))
    scene.must_do(lambda: witness.enqueue("after"))
    incarnations = {(one.incarnation, one.pid) for one in witness.app.workers()}
    scene.must(len(incarnations) == 2, f"parent and child are {incarnations}")


def child_ends(ending: str) -> Callable[[Scene], None]:
    """A child that goes, in whatever way, frees nothing that its parent holds."""

    def act(scene: Scene) -> None:
        with scene.neighbour() as other:
            witness = scene.witness()
            scene.must_do(lambda: witness.enqueue("held"))
            (lease,) = scene.must_do(witness.claim)

            def in_the_child() -> None:
                if ending == "closes":
                    witness.app.close()
                elif ending == "opens its own and closes":
                    witness.app.enqueue("work", id="childs")
                    witness.app.close()
                elif ending == "collects its garbage":
                    gc.collect()

            if ending == "opens its own and closes":
                # On the record by hand: the child's own answer must not be the parent's last one.
                witness.call(
                    "enqueue", _asked("childs"), lambda: scene.in_a_process(in_the_child), _told
                )
            else:
                scene.must(scene.in_a_process(in_the_child) == 0, "the child could not go")
            scene.must(other.tell("heal") == 0, "a task of a living process was taken back")
            scene.must("held" not in other.tell("claim"), "a held task was handed out again")
            scene.must_do(lambda: witness.complete(lease, "done"))

    return act


def _asked(task_id: str) -> dict[str, Any]:
    return {"ids": [task_id], "payloads": [None]}


def _told(status: int) -> list[str]:
    return ["childs"] if status == 0 else []


def parent_dies(scene: Scene) -> None:
    """A child that lives on does not keep the dead parent's task from others."""
    with scene.neighbour() as other:
        witness = scene.witness()
        is_ready, ready = os.pipe()
        is_over, over = os.pipe()

        def be_the_parent() -> None:
            witness.enqueue("t")
            witness.claim()
            if os.fork() == 0:
                os.write(ready, b"!")
                os.read(is_over, 1)
                os._exit(0)
            os.read(is_ready, 1)
            scene.write(["killed", "w", 0.0])
            os._exit(9)

        scene.in_a_process(be_the_parent)
        try:
            scene.must(other.tell("claim") == ["t"], "a dead process's task is not to be had")
            scene.must(other.tell("complete", "t"), "it cannot be completed")
        finally:
            os.write(over, b"!")


def _child_in_the_midst(scene: Scene, witness: Witness, does: str) -> int:
    """Fork amid an operation that goes on in the parent; how the child ended."""

    def in_the_child() -> None:
        if does == "uses":
            refused = partial(witness.app.enqueue, "work", id="childs")
            scene.must_raise("StoreError", refused, MIDST)
        elif does == "closes":
            witness.app.close()

    return scene.in_a_process(in_the_child)


def forked_within(does: str) -> Callable[[Scene], None]:
    """Forked in the middle of an operation of this thread: it is the parent's, to its end."""

    def act(scene: Scene) -> None:
        witness = scene.witness()
        scene.must_do(witness.open)
        ended: list[int] = []

        def fork() -> None:
            ended.append(_child_in_the_midst(scene, witness, does))

        with scene.at("enqueue.written", fork):
            scene.must_do(lambda: witness.enqueue("under way"))
        scene.must(ended == [0], "the child could not do its part")
        scene.must_do(lambda: witness.enqueue("next"))

    return act


def forked_beside(does: str, *, in_time: bool) -> Callable[[Scene], None]:
    """Forked while another thread is inside a transaction: the fork waits for its end, or until
    it can wait no longer."""

    def act(scene: Scene) -> None:
        witness = scene.witness()
        scene.must_do(witness.open)
        inside, go_on = threading.Event(), threading.Event()

        def pause() -> None:
            inside.set()
            go_on.wait(WAIT_SECONDS)

        if in_time:
            # What registers last is called first: the fork has begun, and Outlast waits next.
            os.register_at_fork(before=go_on.set)
        else:
            vars(opening)["FORK_PATIENCE_SECONDS"] = IMPATIENCE_SECONDS
        with scene.at("enqueue.written", pause):
            thread = threading.Thread(target=witness.named("thread").enqueue, args=["under way"])
            thread.start()
            inside.wait(WAIT_SECONDS)
            status = (_child_on_its_own if in_time else _child_in_the_midst)(scene, witness, does)
            go_on.set()
            thread.join()
        scene.must(status == 0, "the child could not do its part")
        scene.must_do(lambda: witness.enqueue("next"))

    return act


def _child_on_its_own(scene: Scene, witness: Witness, does: str) -> int:
    child = witness.named("child")
    uses: dict[str, Callable[[], Any]] = {
        "uses": partial(scene.must_do, partial(child.enqueue, "childs")),
        "closes": witness.app.close,
        "ends": gc.collect,
    }
    return scene.in_a_process(uses[does])


def forked_in_the_thick(scene: Scene) -> None:
    """Forked again and again while threads write; every child can use the store."""
    witness = scene.witness()
    scene.must_do(witness.open)
    stop = threading.Event()

    def write(name: str) -> None:
        one, number = witness.named(name), 0
        while not stop.is_set():
            one.enqueue(f"{name}:{number}", "x" * 1000)
            number += 1

    threads = [threading.Thread(target=write, args=[f"thread {n}"]) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        for n in range(FORKS):
            child = witness.named(f"child {n}")
            status = scene.in_a_process(
                partial(scene.must_do, partial(child.enqueue, f"child {n}"))
            )
            scene.must(status == 0, f"child {n} could not use the store")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    scene.must(not scene.refusals, f"the parent's threads were told: {scene.refusals[:3]}")


def child_goes_on(scene: Scene) -> None:
    """What a child stores stands, though its parent closes and strangers come, flush and go."""
    with scene.neighbour() as other:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue("parents"))
        is_open, opened = os.pipe()
        may_go_on, go_on = os.pipe()

        def in_the_child() -> None:
            child = witness.named("child")
            scene.must_do(lambda: child.enqueue("before"))
            os.write(opened, b"!")
            os.read(may_go_on, 1)
            for n in range(20):
                scene.must_do(partial(child.enqueue, f"after {n}"))
            child.close()

        pid = scene.fork(in_the_child)
        os.read(is_open, 1)
        witness.app.close()
        said = other.sql("PRAGMA journal_mode = DELETE")
        scene.must("locked" in str(said), f"the child has no locks of its own: {said}")
        scene.must(other.tell("flush"), "a stranger cannot flush")
        scene.must(other.tell("close") is None, "a stranger cannot leave")
        os.write(go_on, b"!")
        scene.must(os.waitpid(pid, 0)[1] == 0, "the child could not go on")


def cases() -> Iterator[tuple[str, Case]]:
    """All of them by name."""
    yield (
        "fork: the child uses the object",
        Case(
            "refuses inherited leases by LeaseInherited and works for child and parent",
            child_uses_the_object,
        ),
    )
    keeps = "leaves the parent its tasks and its lock"
    for ending in ("closes", "ends", "opens its own and closes", "collects its garbage"):
        yield f"fork: the child {ending}", Case(keeps, child_ends(ending))
    yield (
        "fork: the parent dies, the child lives on",
        Case("hands the dead parent's task to the next", parent_dies),
    )
    within = "leaves the operation to the parent, and the child refuses that file"
    waits = "waits for the operation under way, and leaves it to the parent"
    for does in ("uses", "closes", "ends"):
        yield f"fork: inside an operation, the child {does}", Case(within, forked_within(does))
        yield (
            f"fork: while a thread is inside a transaction, the child {does}",
            Case(waits, forked_beside(does, in_time=True)),
        )
        yield (
            f"fork: while a thread stays inside a transaction, the child {does}",
            Case(within, forked_beside(does, in_time=False)),
        )
    yield "fork: while threads write", Case("lets every child use the store", forked_in_the_thick)
    yield (
        "fork: the child goes on without its parent",
        Case("keeps what the child stores", child_goes_on),
    )
