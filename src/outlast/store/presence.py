"""Who lives: what an engine knows of this process and of its peers, for the rules to judge."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from outlast.clock import Instant, boot_id
from outlast.domain.locks import LockGrant
from outlast.domain.orphans import Judgement, Patience, Sign, judge_worker
from outlast.store.records import Grant, Principal, Settlement
from outlast.store.transaction import Transaction


class Peer(NamedTuple):
    """Another incarnation as it registered itself."""

    incarnation: str
    name: str
    boot_id: str
    pid: int
    pid_started: int
    pid_namespace: str
    lock_file: str
    lock_inode: int
    beat_at: int
    beat_mono_ms: int
    host: str

    def silent_ms(self, now: Instant) -> int:
        """Since its last beat; only within one boot do monotonic times compare."""
        if self.boot_id == boot_id():
            return max(0, now.mono_ms - self.beat_mono_ms)
        return max(0, now.utc_ms - self.beat_at)


class Identity(NamedTuple):
    """Which process this is."""

    host: str
    pid: int
    boot_id: str


class Begun(NamedTuple):
    """What a dead worker's notes say had begun; only believed when `whole`."""

    whole: bool
    tasks: frozenset[tuple[int, int]]
    peak_memory_bytes: int | None = None
    memory_group: int | None = None


NOT_WHOLE = Begun(False, frozenset())


class Judged(NamedTuple):
    """A peer, what is thought of it and why, and what its notes say had begun."""

    peer: Peer
    sign: Sign
    judgement: Judgement
    begun: Begun

    @property
    def is_dead(self) -> bool:
        """Whether its tasks may be taken."""
        return self.judgement.is_dead


class Own(Protocol):
    """This process as a holder of tasks: its incarnation, its names, and what it has begun."""

    session_id: str
    """The process's opening of the store; its first incarnation has the same id."""

    @property
    def doubtful(self) -> Sequence[Settlement]:
        """Leases that may have been handed out to nobody: the next claim gives them back."""
        ...

    @property
    def doubtful_locks(self) -> Sequence[LockGrant]:
        """The same for named locks."""
        ...

    @property
    def is_assisting(self) -> bool:
        """Whether another process holds the tasks, and this one only acts for it."""
        ...

    @property
    def id(self) -> str:
        """The incarnation's id, or nothing while this process holds nothing."""
        ...

    def incarnation(self) -> object:
        """Whoever the tasks are held by, as this process knows it."""
        ...

    def row(self, tx: Transaction, worker: str, now: Instant) -> int:
        """The row to claim under, registered in the claim's own transaction if it is new."""
        ...

    def remember(self, worker: str, row: int, of: object) -> None:
        """A claim committed, and with it the worker's row; unless we began anew meanwhile."""
        ...

    def principal(self, worker: str, row: int) -> Principal:
        """This process as a worker of that name, for an assistant to act for."""
        ...

    def begin_anew(self, declared_dead: object) -> None:
        """After being declared dead: a new incarnation, for only a new one can be alive."""
        ...

    def enlist(self, worker: str) -> bool:
        """A worker of this name begins its work; False if one in this process is at it."""
        ...

    def retired(self, worker: str) -> int | None:
        """The row of a worker that ended its work; the next claim under its name asks anew."""
        ...

    def doubt(self, handed: Sequence[Settlement]) -> None:
        """Leases that may have been handed out to nobody."""
        ...

    def is_settled(self, doubtful: Sequence[Settlement]) -> None:
        """A claim committed, and with it the end of these."""
        ...

    def doubt_locks(self, handed: Sequence[LockGrant]) -> None:
        """The same for named locks: the next one who asks for a lock frees them."""
        ...

    def locks_are_settled(self, doubtful: Sequence[LockGrant]) -> None:
        """A request committed, and with it the end of these."""
        ...

    def note(self, grant: Grant) -> bool:
        """Write down that a task's work begins; False when it cannot be noted."""
        ...

    def note_memory(self, peak_bytes: int) -> None:
        """Write down how much memory this process has used at most."""
        ...

    def forget(self, grants: Sequence[Grant]) -> None:
        """The ends of leases are committed."""
        ...

    def end_soon(self) -> str:
        """From now on nobody is handed anything; the incarnation that may hold tasks."""
        ...


class Presence(Protocol):
    """What an engine can find out about those who use the store."""

    @property
    def own(self) -> Own:
        """This process."""
        ...

    @property
    def own_id(self) -> str:
        """This process's own incarnation, or nothing while it holds nothing."""
        ...

    def identity(self) -> Identity:
        """Which process this is."""
        ...

    def signs_of(self, peers: Sequence[Peer]) -> list[tuple[Sign, Begun]]:
        """The strongest sign of life or death of each, and what its notes say."""
        ...

    def has_not_begun(self, peer: Peer, lease: tuple[int, ...]) -> bool:
        """Whether the notes of a peer, if they can be read, do not name a task it prefetched."""
        ...

    def is_this_process(self, peer: Peer) -> bool:
        """Whether it registered from this very process, under whatever incarnation."""
        ...

    def watch(self, peers: Iterable[Peer]) -> None:
        """Be told when one of these ends, and of nobody else."""
        ...

    def exit_signal(self, peer: Peer) -> int | None:
        """Which signal ended a process, as far as it is known."""
        ...

    def oom_kills_since(self, before: int, group: int | None) -> int | None:
        """How often the kernel has killed for want of memory in that group, if it is ours."""
        ...

    def forget(self, peer: Peer) -> None:
        """Remove what a dead peer left behind, once its row says so."""
        ...

    def mark_session(self, now: Instant) -> None:
        """Set the mark that tells the next opening that this session did not end well."""
        ...

    def sweep_sessions(self) -> None:
        """Take away the marks of sessions whose crash was recovered."""
        ...

    def other_users(self) -> bool:
        """Whether other processes use the store now."""
        ...


def judge(
    presence: Presence, peers: Sequence[Peer], now: Instant, patience: Patience
) -> list[Judged]:
    """Ask the engine, then let the one rule decide."""
    return [
        Judged(peer, sign, judge_worker(sign, peer.silent_ms(now), patience), begun)
        for peer, (sign, begun) in zip(peers, presence.signs_of(peers), strict=True)
    ]
