"""Leases: ended, renewed and noted, one by one and as sets."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from outlast.clock import Instant
from outlast.domain.lifecycle import Outcome
from outlast.domain.metric_marks import FENCED_WRITES
from outlast.errors import LeaseLost
from outlast.store.access import Access, is_crowd
from outlast.store.commit.operation import Operation
from outlast.store.ops import settle
from outlast.store.records import Grant, Settlement, Statement, Ticking
from outlast.store.topics import ANYBODY, WAITING_FOR_RESULTS
from outlast.store.transaction import Transaction

# Named here because an annotation inside a function is evaluated at each call.
Answers = list[bool]
Verdicts = list[bool | None]
Outcomes = Callable[[], Verdicts]


def renew_leases(tx: Transaction, leases: Sequence[tuple[Grant, int]], now: Instant) -> list[bool]:
    """Push leases out to now plus their length, as sets; False for each that is not current."""
    current = held_among(tx, [grant for grant, _ in leases])
    by_length: dict[int, set[int]] = defaultdict(set)
    for grant, lease_ms in leases:
        if grant in current:
            by_length[lease_ms].add(grant.seq)
    for lease_ms, seqs in by_length.items():
        times = {"now": now.utc_ms, "mono": now.mono_ms, "lease_ms": lease_ms}
        renewed = tx.run("renew_leases", {"seqs": tx.ids(seqs)} | times)
        assert renewed == len(seqs), "the write lock is ours, so nobody took them meanwhile"
    return [grant in current for grant, _ in leases]


def held_among(tx: Transaction, grants: Sequence[Grant]) -> set[Grant]:
    """Those of these grants that are current: the row, its holder and its token as they say."""
    if not grants:
        return set()
    seqs = tx.ids(grant.seq for grant in grants)
    return {Grant(*row) for row in tx.rows("held_leases", {"seqs": seqs})}.intersection(grants)


class Leases:
    """What a holder does with its leases; a stale one changes nothing."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def settle(
        self, settlements: Sequence[Settlement], now: Instant, also: Sequence[Statement] = ()
    ) -> list[bool]:
        """End leases; False where this very lease had ended already, LeaseLost for strangers."""

        return self.settle_soon(settlements, now, also).result()

    def settle_soon(
        self, settlements: Sequence[Settlement], now: Instant, also: Sequence[Statement] = ()
    ) -> Operation[list[bool]]:
        """The future of such an ending."""

        def operation(tx: Transaction) -> Verdicts:
            answers = settle.settle_grants(tx, settlements, now)
            if also and all(answers):
                self._access.engine.run_user_statements(also)
            return answers

        def finish(outcome: Outcomes) -> Answers:
            try:
                verdicts = outcome()
                self._access.counts.add(FENCED_WRITES, verdicts.count(None))
                return _settled(settlements, verdicts)
            finally:
                if pending.committed:
                    # Also when its caller was cancelled and will never know.
                    self._access.presence.own.forget(
                        [settlement.grant for settlement in settlements]
                    )

        completed = all(one.cause.outcome is Outcome.COMPLETE for one in settlements)
        pending = self._access.submit(
            "settle",
            operation,
            (one.task_id for one in settlements),
            alone=bool(also) or is_crowd(settlements),
            together=settle.settle_together,
            inputs=(settlements, now),
            wakes=WAITING_FOR_RESULTS if completed else ANYBODY,
        )
        return pending.then(finish)

    def renew(
        self,
        grants: Sequence[Grant],
        now: Instant,
        lease_ms: int,
        stage: str | None = None,
        clock: Ticking | None = None,
    ) -> list[bool]:
        """Push leases out to now plus their length; False for each that is no longer current."""
        return self.renew_soon(grants, now, lease_ms, stage, clock).result()

    def renew_soon(
        self,
        grants: Sequence[Grant],
        now: Instant,
        lease_ms: int,
        stage: str | None = None,
        clock: Ticking | None = None,
    ) -> Operation[list[bool]]:
        """The future of such a renewal."""

        def operation(tx: Transaction) -> Answers:
            utc_ms, mono_ms = clock() if clock else now
            times = {"now": utc_ms, "mono": mono_ms, "lease_ms": lease_ms, "stage": stage}
            return [tx.run("renew_lease", grant._asdict() | times) == 1 for grant in grants]

        return self._access.submit("renew", operation).then(self._refusals_counted)

    def note_start(self, grant: Grant) -> None:
        """Record that a prefetched task's work begins now; unsynced, but it survives kill -9."""
        if not self._access.presence.own.note(grant):
            self._access.write("renew", lambda tx: tx.run("mark_started", grant._asdict()))

    def _refusals_counted(self, outcome: Callable[[], list[bool]]) -> list[bool]:
        answers = outcome()
        self._access.counts.add(FENCED_WRITES, answers.count(False))
        return answers

    def note_end(self, grants: Sequence[Grant]) -> None:
        """The ends of these leases are committed, by an assistant: their notes may go."""
        self._access.presence.own.forget(grants)

    def current_among(self, grants: Sequence[Grant]) -> list[bool]:
        """Which of these leases are current: True for each whose task is held as it says."""
        current = self._access.read("looking at leases", lambda tx: held_among(tx, grants))
        return [grant in current for grant in grants]


def _settled(settlements: Sequence[Settlement], answers: Sequence[bool | None]) -> list[bool]:
    lost = [one.task_id for one, answer in zip(settlements, answers, strict=True) if answer is None]
    if lost:
        kept = answers.count(True)
        raise LeaseLost(lost, f" ({kept} others were settled)" if kept else "")
    return [answer is True for answer in answers]
