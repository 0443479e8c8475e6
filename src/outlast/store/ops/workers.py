"""The workers as their table and the kernel tell of them: who lives, who holds and serves what."""

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.orphans import Judgement, Patience, Sign, judge_worker
from outlast.domain.task import utc, utc_of
from outlast.domain.worker import Serves, StuckHandler, WorkerInfo, WorkerState
from outlast.host import kernel
from outlast.store.ops.orphans import was_heard_of
from outlast.store.records import Holder
from outlast.store.sqlite.presence.peers import Judged, Peer, sign_of
from outlast.store.sqlite.presence.worker_lock_file import NOT_WHOLE, ProbedLock, read_begun
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.transaction import Row, Transaction

MAX_TASKS_SHOWN = 1000

PEER_COLUMNS = len(Peer._fields)


class Listed(NamedTuple):
    """A row of the workers' table, after the columns that tell whom to judge."""

    seq: int
    state: str
    registered_at: int
    ended_at: int | None
    beat_task_id: str | None
    progress: str | None
    serves: str | None
    stuck: str | None


_LISTED_STATES = (WorkerState.ALIVE, WorkerState.STALE, WorkerState.DEAD)

LISTED_COLUMNS = slice(PEER_COLUMNS, PEER_COLUMNS + len(Listed._fields))
LEASE_COLUMNS = slice(LISTED_COLUMNS.stop, None)


class Roster:
    """Reads the workers' table and judges each process of it once."""

    def __init__(self, folder: SideFolder, own: str, now: Instant, patience: Patience) -> None:
        self._folder = folder
        self._own = own
        self._now = now
        self._patience = patience
        self._signs: dict[str, Sign] = {}

    def newest(self, tx: Transaction, limit: int) -> list[WorkerInfo]:
        """The newest first, the dead among them; those that may live are there in any case."""
        living = tx.rows("workers_living", {"name": None})
        rows = {_seq(row): row for row in living}
        for row in tx.rows("workers_newest", {"limit": limit}):
            if len(rows) < limit:
                rows.setdefault(_seq(row), row)
        return [self._info(tx, rows[seq]) for seq in sorted(rows, reverse=True)]

    def living(self, tx: Transaction, name: str | None) -> list[WorkerInfo]:
        """Those that nobody has declared dead, perhaps of one name."""
        rows = sorted(tx.rows("workers_living", {"name": name}), key=_seq, reverse=True)
        return [self._info(tx, row) for row in rows]

    def states(self, tx: Transaction) -> dict[str, int]:
        """How many of those that nobody has declared dead are in which state."""
        rows = tx.rows("workers_living", {"name": None})
        found = Counter(
            self._state(Peer(*row[:PEER_COLUMNS]), Listed(*row[LISTED_COLUMNS])) for row in rows
        )
        return {state.value: found[state] for state in _LISTED_STATES}

    def holder(self, row: Row) -> Holder:
        """Who holds a task, and whether it still can."""
        peer, listed = Peer(*row[:PEER_COLUMNS]), Listed(*row[LISTED_COLUMNS])
        ends_at, ends_mono_ms, unstarted, *lease = row[LEASE_COLUMNS]
        left_ms = ends_mono_ms - self._now.mono_ms
        if peer.boot_id != kernel.boot_id():
            left_ms = ends_at - self._now.utc_ms
        return Holder(
            name=peer.name,
            host=peer.host,
            pid=peer.pid,
            state=self._state(peer, listed),
            silent_ms=peer.silent_ms(self._now),
            is_this_process=peer.incarnation == self._own,
            lease_ran_out=left_ms <= 0,
            waits_for_its_turn=bool(unstarted) and self._has_not_begun(peer, tuple(lease)),
            stuck=_stuck(listed.stuck),
        )

    def _info(self, tx: Transaction, row: Row) -> WorkerInfo:
        peer, listed = Peer(*row[:PEER_COLUMNS]), Listed(*row[LISTED_COLUMNS])
        held = {"holder": listed.seq, "limit": MAX_TASKS_SHOWN}
        count = tx.value("held_count", {"holder": listed.seq})
        return WorkerInfo(
            name=peer.name,
            incarnation=peer.incarnation,
            host=peer.host,
            pid=peer.pid,
            state=self._state(peer, listed, tx),
            registered_at=utc_of(listed.registered_at),
            beat_at=utc_of(peer.beat_at),
            silent_seconds=peer.silent_ms(self._now) / 1000,
            ended_at=utc(listed.ended_at),
            task_ids=tuple(one for (one,) in tx.rows("held_ids", held)) if count else (),
            task_count=count,
            beat_task_id=listed.beat_task_id,
            progress=None if listed.progress is None else codec.decode(listed.progress),
            serves=serves_from(listed.serves),
            stuck=_stuck(listed.stuck),
        )

    def _state(self, peer: Peer, listed: Listed, tx: Transaction | None = None) -> WorkerState:
        stored = WorkerState(listed.state)
        if stored is not WorkerState.ALIVE:
            return stored
        judged = WorkerState(self._judgement(peer).liveness)
        if judged is WorkerState.DEAD and tx is not None and self._renews(tx, peer):
            return WorkerState.STALE
        return judged

    def _renews(self, tx: Transaction, peer: Peer) -> bool:
        """One that is silent but renews its leases is no more than stale."""
        found = Judged(peer, self._signs[peer.incarnation], self._judgement(peer), NOT_WHOLE)
        return was_heard_of(tx, found, self._now, self._patience)

    def _judgement(self, peer: Peer) -> Judgement:
        """All names of a process share its fate; of its own, whoever asks is the living proof."""
        if peer.incarnation == self._own:
            return judge_worker(Sign.LOCK_HELD, peer.silent_ms(self._now), self._patience)
        if peer.incarnation not in self._signs:
            self._signs[peer.incarnation], _ = sign_of(peer, self._folder)
        sign = self._signs[peer.incarnation]
        return judge_worker(sign, peer.silent_ms(self._now), self._patience)

    def _has_not_begun(self, peer: Peer, lease: tuple[int, ...]) -> bool:
        """Whether the notes of a worker, if they can be read, do not name a task it prefetched."""
        try:
            lock = ProbedLock(self._folder.workers / Path(peer.lock_file).name, peer.lock_inode)
        except OSError:
            return False
        with closing(lock):
            begun = read_begun(lock.descriptor, peer.incarnation)
        return begun.whole and lease not in begun.tasks


def _seq(row: Row) -> int:
    return int(row[PEER_COLUMNS])


def serves_from(text: str | None) -> Serves | None:
    """What a worker says that it serves."""
    if text is None:
        return None
    said: dict[str, Any] = codec.decode(text)
    kinds = said.get("kinds")
    return Serves(
        tuple(said.get("queues", ())),
        None if kinds is None else tuple(kinds),
        said.get("concurrency"),
    )


def _stuck(text: str | None) -> tuple[StuckHandler, ...]:
    said: Iterable[dict[str, Any]] = () if text is None else codec.decode(text)
    return tuple(StuckHandler(one["task_id"], one["kind"], utc_of(one["since_ms"])) for one in said)
