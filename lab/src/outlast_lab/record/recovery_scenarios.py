"""The lives of recovery: a start among many dead, mending by hand and by the detector, approval.

Like the other lives they are fixed in all they do. What the dead left is made by processes that
are killed together, for each that dies alone is recovered by the next to open the store.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from outlast_lab.judge.recovery_rules import SPARED_KIND
from outlast_lab.record.history import KILLED, Write, host_seconds
from outlast_lab.record.operator_scenarios import OPERATING_LIVES
from outlast_lab.record.recorder import Witness
from outlast_lab.record.scenarios import LIVES, SETTINGS, Life, each_of, nth, opened

PLAIN = ["work"]
POISON_KIND, FAILING_KIND, RESET_KIND = "poison", "failing", "reset"
_ACTIONS = {SPARED_KIND: "none", FAILING_KIND: "fail", RESET_KIND: "pending"}

# Two tasks to a batch, so that there are many; a second loss is one too many.
BY_ITSELF = replace(SETTINGS, max_recovery_attempts=1, recovery_action_by_kind=_ACTIONS)
BY_APPROVAL = replace(BY_ITSELF, recovery_mode="manual")

_PATIENCE_SECONDS = 60

Act = Callable[[Path, Write], None]


# What was before


def deserted(path: Path, write: Write) -> None:
    """Three processes died at the same time, and one of their tasks has been lost before."""
    _die_together(path, write, [_stock])
    _die_together(path, write, [_hold_the_poison])
    _die_together(path, write, [_hold_some, _hold_ahead, _hold_every_kind])


def _stock(path: Path, write: Write) -> None:
    one, _ = opened(path, write, settings=BY_ITSELF)
    one.enqueue_many([f"t-{n}" for n in range(9)], list(range(9)))
    one.enqueue("poison", kind=POISON_KIND, max_recoveries=1)
    for kind in _ACTIONS:
        one.enqueue_many([f"{kind}-{n}" for n in range(2)], [0, 1], kind)
    one.enqueue("keyed", kind=FAILING_KIND, idempotency_key="k")
    one.close()


def _hold_the_poison(path: Path, write: Write) -> None:
    _opened_by("first", path, write).claim(kinds=[POISON_KIND])


def _hold_some(path: Path, write: Write) -> None:
    """More than two batches, the poison among them."""
    one = _opened_by("busy", path, write)
    one.claim(kinds=[POISON_KIND])
    one.claim(limit=3, kinds=PLAIN)
    one.named("busy too").claim(limit=2, kinds=PLAIN)


def _hold_ahead(path: Path, write: Write) -> None:
    """Of three that were taken ahead one was begun."""
    one = _opened_by("ahead", path, write)
    one.start(nth(one.prefetch(limit=3, kinds=PLAIN), 0))


def _hold_every_kind(path: Path, write: Write) -> None:
    one = _opened_by("versatile", path, write)
    one.checkpoint(nth(one.claim(limit=9, kinds=list(_ACTIONS)), 0), "tool_executed", {"n": 1})


def _opened_by(name: str, path: Path, write: Write) -> Witness:
    one, _ = opened(path, write, settings=BY_ITSELF)
    return one.named(name)


def _die_together(path: Path, write: Write, acts: Sequence[Act]) -> None:
    """Each acts in a process of its own, after the one before; then all are killed."""
    pids = [_in_a_process(act, path, write) for act in acts]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)


def _in_a_process(act: Act, path: Path, write: Write) -> int:
    """Returns when it has acted; it stays until it is killed."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(_PATIENCE_SECONDS)
        names: set[str] = set()
        try:
            act(path, _noting(names, write))
            for name in sorted(names):
                write([KILLED, name, host_seconds()])
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            os._exit(1)
        os.write(said, b"!")
        while True:
            signal.pause()
    os.close(said)
    with os.fdopen(heard, "rb") as reading:
        if not reading.read(1):
            raise RuntimeError(f"{act.__name__} did not come to its end")
    return pid


def _noting(names: set[str], write: Write) -> Write:
    """Writes, and notes who claims anything: its death goes on record before it comes."""

    def noting(line: list[object]) -> None:
        write(line)
        if line[0] == "asks" and line[3] in ("claim", "prefetch"):
            names.add(str(line[2]))

    return noting


# The lives


def start(path: Path, write: Write) -> None:
    """Nothing but start-up recovery, in many batches, of every way to be lost."""
    opened(path, write, settings=BY_ITSELF)


def mend(path: Path, write: Write) -> None:
    """Two days later: leases that run out are found by the detector, by hand, and by a second run.

    Of tasks that were lost before, one records progress, which counts its crashes anew. In the end
    one leaves cleanly, with leases out.
    """
    one, clock = opened(path, write, 2, BY_ITSELF)
    one.named("slow").claim(limit=3, kinds=PLAIN, lease="10s")
    clock.advance("1m")
    one.detect()
    slower = one.named("slower")
    lost_before = slower.claim(limit=3, kinds=PLAIN, lease="10s")
    slower.checkpoint(nth(lost_before, 0), "iteration_start", {"n": 1})
    slower.checkpoint(nth(lost_before, 1), "iteration_end", {"n": 1})
    clock.advance("10m")
    one.reclaim_stale("5m")
    one.named("slowest").claim(limit=3, kinds=PLAIN, lease="1h")
    clock.advance("10m")
    one.reclaim_stale("5m")
    one.reclaim_stale("5m", force=True)
    one.named("slow again").claim(limit=2, kinds=PLAIN, lease="10s")
    clock.advance("1m")
    one.recover()
    one.recover()
    one.named("last").claim(limit=2, kinds=[RESET_KIND])
    one.close()


def approve(path: Path, write: Write) -> None:
    """Orphans are held; one is approved and completed, another lost again and held again."""
    one, clock = opened(path, write, settings=BY_APPROVAL)
    one.claim(limit=9, kinds=PLAIN)
    for task_id in ("t-0", "reset-0"):
        one.unpark_task(task_id)
    one.complete(nth(one.claim(kinds=PLAIN), 0), "approved")
    one.named("slow").claim(kinds=[RESET_KIND], lease="10s")
    clock.advance("1m")
    one.heal()
    one.unpark_task("t-1")


_MENDING = each_of("recover") | each_of("heal") | {"settle.logged", "settle.updated"}
# What comes before the first batch: how the store was left is known, the file is checked, its log
# moved, the marker set.
_OPENING = {"open.judged", "open.checked", "recover.marked"}
_FLUSHING = {"flush.begun", "flush.counted", "flush.done"}
_STARTING = frozenset(_OPENING | _FLUSHING | _MENDING | each_of("purge"))

RECOVERY_LIVES = {
    "start": Life(deserted, start, _STARTING, converges=True),
    "mend": Life(deserted, mend, frozenset(_MENDING | each_of("checkpoint") | each_of("close"))),
    "approve": Life(deserted, approve, frozenset(_MENDING | each_of("park"))),
}
ALL_LIVES = LIVES | RECOVERY_LIVES | OPERATING_LIVES
