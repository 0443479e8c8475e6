"""Misuse: processes, threads and handlers that end or are interrupted at the worst moment."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType

from outlast.app.app import Outlast
from outlast.settings import Settings
from outlast_lab.experiments.misuse.scene import Case, Scene
from outlast_lab.record.recorder import Witness

STATUS = 3
ROUNDS = 900
LONGEST_SECONDS = 0.0015
THREADS = 4
HANDLER_SECONDS, SIGNAL_AGAIN_SECONDS = 20, 0.1


class Interrupted(BaseException):
    """What a signal's handler raises; nobody of Outlast catches it, and nobody may."""


def exit_in_a_handler(scene: Scene) -> None:
    """A handler ends its whole process; the next takes the task back, until its budget is spent."""
    scene.must_do(lambda: scene.witness("producer").enqueue("t", kind="leave"))

    def work() -> None:
        app = Outlast(scene.path, settings=Settings(heartbeat_grace_seconds=0))

        @app.task
        def leave() -> None:
            os._exit(STATUS)

        app.worker(name="w", concurrency=1).run(until_empty=True)

    for _ in range(4):
        status = scene.in_a_process(work)
        scene.must(os.waitstatus_to_exitcode(status) == STATUS, f"the worker ended with {status}")
    scene.must(scene.in_a_process(work) == 0, "the fifth worker was not spared")
    with Outlast(scene.path) as app:
        task = app.get("t")
    counted = (task.status.value, task.attempt, task.recovery_count)
    scene.must(counted == ("failed", 4, 3), f"the task is {counted}")


def daemons_at_the_end(scene: Scene) -> None:
    """The interpreter ends while its threads are in the middle of writing."""
    pid = os.fork()
    if pid == 0:
        witness = scene.witness()
        scene.must_do(witness.open)
        begun = threading.Barrier(THREADS + 1)
        for n in range(THREADS):
            threading.Thread(target=_write_for_ever, args=(scene, witness, n, begun),
                             daemon=True).start()  # fmt: skip
        begun.wait()
        raise SystemExit(0)
    ended = os.waitpid(pid, 0)[1]
    scene.must(ended == 0, f"the process ended with {ended}")
    witness = scene.witness("next", write_timeout_seconds=5)
    scene.must_do(lambda: witness.enqueue("after"))
    witness.close()


def _write_for_ever(scene: Scene, witness: Witness, n: int, begun: threading.Barrier) -> None:
    one, number = witness.named(f"thread {n}"), 0
    one.enqueue(f"{n}:first")
    begun.wait()
    while True:
        one.enqueue(f"{n}:{number}")
        number += 1


def _struck_inside(has_begun: threading.Event, is_over: threading.Event) -> None:
    """On the committer's thread: its transaction stays open until the handler is over.

    A signal that arrives just before the main thread lies down does not wake it: it is sent again.
    """
    ends_at = time.monotonic() + HANDLER_SECONDS
    while not has_begun.is_set() and time.monotonic() < ends_at:
        os.kill(os.getpid(), signal.SIGUSR1)
        has_begun.wait(SIGNAL_AGAIN_SECONDS)
    is_over.wait(HANDLER_SECONDS)


def handler_uses_the_store(use: str) -> Callable[[Scene], None]:
    """A signal's handler uses the store while the call that it interrupts is being committed."""

    def act(scene: Scene) -> None:
        witness, has_begun = scene.witness(), threading.Event()
        scene.must_do(witness.open)
        uses: dict[str, Callable[[], object]] = {
            "enqueues": partial(witness.enqueue, "of the handler"),
            "claims": witness.claim,
            "closes": witness.close,
        }
        said: list[object] = []

        def handle(number: int, frame: FrameType | None) -> None:
            if not has_begun.is_set():
                has_begun.set()
                said.append(scene.must_do(uses[use]))

        signal.signal(signal.SIGUSR1, handle)
        with scene.at("enqueue.written", lambda: _struck_inside(has_begun, has_begun)):
            scene.must_do(lambda: witness.enqueue("under way"))
        scene.must(len(said) == 1, f"the handler was answered {said}")
        scene.must_do(lambda: witness.enqueue("next"))
        witness.close()

    return act


def handler_reads(scene: Scene) -> None:
    """A signal's handler looks at the store while the call that it interrupts is not committed."""
    witness, has_begun, has_looked = scene.witness(), threading.Event(), threading.Event()
    scene.must_do(lambda: witness.enqueue("before"))
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if has_begun.is_set():
            return
        has_begun.set()
        seen.append(witness.app.counts()["pending"])
        has_looked.set()

    signal.signal(signal.SIGUSR1, handle)
    with scene.at("enqueue.written", lambda: _struck_inside(has_begun, has_looked)):
        scene.must_do(lambda: witness.enqueue("under way"))
    scene.must(seen == [1], f"it saw {seen} tasks, one of which is not committed")
    witness.close()


def interrupted_at(moment: str) -> Callable[[Scene], None]:
    """A signal's handler raises inside a transaction: nobody waits for its end in vain."""

    def act(scene: Scene) -> None:
        with scene.neighbour() as other:
            witness = scene.witness()
            scene.must_do(lambda: witness.enqueue("before"))
            signal.signal(signal.SIGUSR1, _interrupt)
            was_interrupted = False
            try:
                with scene.at(moment, lambda: os.kill(os.getpid(), signal.SIGUSR1)):
                    witness.enqueue("under way")
            except Interrupted:
                was_interrupted = True
            scene.must(was_interrupted, "the handler's exception was swallowed")
            scene.must(other.tell("enqueue", "of another") == "of another", "others are held up")
            scene.must_do(lambda: witness.resolve("under way"))
            scene.must_do(lambda: witness.enqueue("next"))
            witness.close()

    return act


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


def interrupted_at_random(scene: Scene) -> None:
    """The same at any moment, some hundred times."""
    with scene.neighbour() as other:
        witness, dice = scene.witness(), random.Random(7)
        scene.must_do(witness.open)
        signal.signal(signal.SIGALRM, _interrupt)
        struck = 0
        for number in range(ROUNDS):
            struck += _struck(witness, number, dice.uniform(0.00002, LONGEST_SECONDS))
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        scene.must(struck > ROUNDS / 50, f"the signals met only {struck} operations")
        scene.must(other.tell("enqueue", "of another") == "of another", "others are held up")
        for act in (witness.app.counts, witness.close):
            with_time = threading.Thread(target=act, daemon=True)
            with_time.start()
            with_time.join(20)
            scene.must(not with_time.is_alive(), f"{act.__name__}() does not return")
        left = other.sql("SELECT count(*) FROM tasks WHERE status = 'running'")
        scene.must(left == [[0]], f"what was in hand was not given back: {left}")


def _struck(witness: Witness, number: int, seconds: float) -> bool:
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            witness.enqueue(f"t{number}")
            witness.app.counts()
            for lease in witness.claim():
                witness.complete(lease, number)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        return True
    return False


def killed_threads_of_a_worker(scene: Scene) -> None:
    """The main thread ends while a worker runs in another; its tasks are not stuck."""
    scene.must_do(lambda: scene.witness("producer").enqueue("t", kind="linger"))
    begun = scene.folder / "begun"
    pid = os.fork()
    if pid == 0:
        app = Outlast(scene.path)

        @app.task
        def linger() -> None:
            begun.touch()
            time.sleep(60)

        threading.Thread(target=app.worker(name="w").run, daemon=True).start()
        ends_at = time.monotonic() + 30
        while not begun.exists() and time.monotonic() < ends_at:
            time.sleep(0.005)
        raise SystemExit(0)
    os.waitpid(pid, 0)
    scene.must(begun.exists(), "the handler never began")
    witness = scene.witness("next")
    (lease,) = scene.must_do(lambda: witness.claim(wait=10)) or [None]
    scene.must(lease is not None, "the task of the ended worker is stuck")
    scene.must_do(lambda: witness.complete(lease, "done"))
    witness.close()


def cases() -> Iterator[tuple[str, Case]]:
    """All of them by name."""
    yield (
        "ending: os._exit in a handler",
        Case("takes the task back three times and then fails it", exit_in_a_handler),
    )
    yield (
        "ending: threads that write when the interpreter ends",
        Case("loses nothing that was acknowledged, and blocks nobody", daemons_at_the_end),
    )
    yield (
        "ending: a worker's thread when the interpreter ends",
        Case("gives its task to the next", killed_threads_of_a_worker),
    )
    for use in ("enqueues", "claims", "closes"):
        yield (
            f"signal: a handler {use} inside a transaction",
            Case("does what was under way and what the handler asks", handler_uses_the_store(use)),
        )
    yield (
        "signal: a handler looks inside a transaction",
        Case("shows what is committed", handler_reads),
    )
    for moment in ("enqueue.begun", "enqueue.written", "enqueue.committed"):
        yield (
            f"signal: a handler raises at {moment}",
            Case("holds up nobody, and resolve() tells what became of it", interrupted_at(moment)),
        )
    yield (
        "signal: a handler raises at random moments",
        Case("loses nothing that was acknowledged, and can be closed", interrupted_at_random),
    )
