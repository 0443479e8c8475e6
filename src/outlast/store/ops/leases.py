"""Leases as sets: which of them are current, and pushing them out together."""

from collections import defaultdict
from collections.abc import Sequence

from outlast.clock import Instant
from outlast.store.records import Grant
from outlast.store.sqlite.transaction import Transaction, int_array


def renew_leases(tx: Transaction, leases: Sequence[tuple[Grant, int]], now: Instant) -> list[bool]:
    """Push leases out to now plus their length, as sets; False for each that is not current."""
    current = held_among(tx, [grant for grant, _ in leases])
    by_length: dict[int, set[int]] = defaultdict(set)
    for grant, lease_ms in leases:
        if grant in current:
            by_length[lease_ms].add(grant.seq)
    for lease_ms, seqs in by_length.items():
        times = {"now": now.utc_ms, "mono": now.mono_ms, "lease_ms": lease_ms}
        renewed = tx.run("renew_leases", {"seqs": int_array(seqs)} | times)
        assert renewed == len(seqs), "the write lock is ours, so nobody took them meanwhile"
    return [grant in current for grant, _ in leases]


def held_among(tx: Transaction, grants: Sequence[Grant]) -> set[Grant]:
    """Those of these grants that are current: the row, its holder and its token as they say."""
    if not grants:
        return set()
    seqs = int_array(grant.seq for grant in grants)
    return {Grant(*row) for row in tx.rows("held_leases", {"seqs": seqs})}.intersection(grants)
