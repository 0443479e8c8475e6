"""What killed an attempt, as far as it can be known: said in the error of the task it was at."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from outlast.domain.lifecycle import RECOVERY, Cause, Outcome, Parked
from outlast.domain.orphans import Sign
from outlast.domain.signals import signal_name
from outlast.domain.size import in_bytes
from outlast.store.ops.settle import SameRows, TaskRow
from outlast.store.presence import Judged, Presence
from outlast.store.records import RecoveryPolicy
from outlast.store.transaction import Transaction

ENDED = frozenset({Sign.LOCK_FREE, Sign.PROCESS_GONE})
"""Signs of a process that is over: whoever is dead by other signs may never have ended."""

MOST_LOOKED_INTO = 100
"""How many tasks of a batch are told with their last steps: as many as a person may read of.

A process that died at its work had begun a handful. One that held more of them claimed by the
batch, and then all that are alike are moved by one statement; what each was at would make a set of
each, and a million of them would wait for it.
"""


class Evidence(NamedTuple):
    """What a dead worker left that tells of its end."""

    exit_signal: int | None
    """By which signal it ended, if the kernel would still say."""
    peak_memory_bytes: int | None
    oom_kills: int | None
    """How often the kernel has killed for want of memory since the worker began, in its group."""
    seen_at_ms: int = 0
    """When it was last known to live."""

    @property
    def words(self) -> str:
        """What it died of, as the end of a sentence."""
        signal = self.exit_signal
        said = [signal_name(signal) if signal else "it ended without a word"]
        # A count that fell has begun anew, with a machine that was thawed from an image for one.
        if self.oom_kills is not None and self.oom_kills > 0:
            said.append("the kernel killed for want of memory meanwhile")
        if self.peak_memory_bytes:
            said.append(f"peak {in_bytes(self.peak_memory_bytes)}")
        return ", ".join(said)


def evidence(
    tx: Transaction, presence: Presence, found: Judged, exit_signal: int | None
) -> Evidence:
    """Look at what the worker's rows and its lock file say, and at what the kernel counts."""
    row = tx.row("last_words", {"incarnation": found.peer.incarnation})
    peak_at_beat, oom_kills = row or (None, None)
    peaks = [one for one in (peak_at_beat, found.begun.peak_memory_bytes) if one]
    kills = None
    if oom_kills is not None:
        kills = presence.oom_kills_since(oom_kills, found.begun.memory_group)
    seen_at_ms = last_sign(tx, [found.peer.incarnation]) or found.peer.beat_at
    return Evidence(exit_signal, max(peaks, default=None), kills, seen_at_ms)


def last_sign(tx: Transaction, incarnations: Sequence[str]) -> int | None:
    """When any of them last beat, or took or renewed a lease that it still holds, in UTC."""
    if not incarnations:
        return None
    at: int | None = tx.value("last_sign", {"incarnations": json.dumps(incarnations)})
    return at


def loss(task: TaskRow, found: Judged, left: Evidence, policy: RecoveryPolicy) -> Cause:
    """A prefetched task that its worker never began is given back uncharged."""
    begun, peer = found.begun, found.peer
    if task.unstarted and begun.whole and (task.seq, task.token) not in begun.tasks:
        return Cause(Outcome.NEVER_STARTED, RECOVERY)
    because = found.judgement.because
    how = f"{left.words} ({because})" if found.sign in ENDED else because
    return Cause(
        Outcome.CRASH,
        RECOVERY,
        error=f"worker {task.worker} (pid {peer.pid}) died while running this task of kind"
        f" {task.kind}: {how}",
        action=policy.action_for(task.kind),
        max_recoveries=policy.max_recoveries,
        parked=Parked.HOLD if policy.is_held else None,
        summary=f"in kind `{task.kind}`: {how}, worker {task.worker}, pid {peer.pid}",
    )


def nobodys(task: TaskRow, policy: RecoveryPolicy) -> Cause:
    """A task that is running in nobody's hands."""
    return Cause(
        Outcome.CRASH,
        RECOVERY,
        error="the task was running and nobody held it",
        action=policy.action_for(task.kind),
        max_recoveries=policy.max_recoveries,
        parked=Parked.HOLD if policy.is_held else None,
    )


def with_last_steps(tx: Transaction, endings: Sequence[SameRows]) -> list[SameRows]:
    """Say of the tasks that died with their holder what they were at, unless they are too many."""
    lost = [one for one in endings if one.cause.outcome is Outcome.CRASH and one.cause.summary]
    if not 0 < sum(len(one.rows) for one in lost) <= MOST_LOOKED_INTO:
        return list(endings)
    steps = _last_steps(tx, [row.seq for one in lost for row in one.rows])
    return [told for one in endings for told in (_by_step(one, steps) if one in lost else [one])]


def _last_steps(tx: Transaction, seqs: Sequence[int]) -> dict[int, str]:
    """Stage and newest checkpoint of those that have any, as the end of a sentence."""
    steps = {}
    for seq, stage, number, type_, attempt in tx.rows("last_steps", {"seqs": tx.ids(seqs)}):
        said = [f"stage {stage}"] if stage is not None else []
        if number is not None:
            before = f" of attempt {attempt}" if attempt is not None else ""
            said.append(f"checkpoint {number} ({type_}){before}")
        steps[seq] = f"; last step: {', '.join(said)}"
    return steps


def _by_step(ending: SameRows, steps: Mapping[int, str]) -> list[SameRows]:
    """Those that were at the same thing stay together."""
    rows, cause = ending
    by_step: dict[str, list[TaskRow]] = {}
    for row in rows:
        by_step.setdefault(steps.get(row.seq, ""), []).append(row)
    return [
        SameRows(
            same, cause._replace(error=f"{cause.error}{step}", summary=f"{cause.summary}{step}")
        )
        for step, same in by_step.items()
    ]
