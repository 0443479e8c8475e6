"""Who leads after a group is committed, so that groups and lone operations take turns."""

from collections.abc import Sequence
from typing import Any

from outlast.store.sqlite.pending import Group, Pending, Turn
from outlast.store.sqlite.usher import Usher

# The usher, who leads for coroutines, is known by the turn it sleeps on.
Leader = Pending[Any] | Turn


def successor(
    group: Group | None,
    alone: Sequence[Pending[Any]],
    shared: Sequence[Pending[Any]],
    usher: Usher,
) -> Leader | None:
    """Who must lead next, of those that wait.

    Where the order does not matter nobody is named: whoever comes first need not be woken.
    """
    # Whoever is alone is so in its group as well.
    was_alone = group is not None and any(one.operation.alone for one in group.members[:1])
    if alone and not (was_alone and shared):
        return alone[0]
    if was_alone and shared:
        first = shared[0]
        if first.turn is not usher.turn:
            return first
        return usher.turn if usher.is_there else None
    return None


def turn_of(leader: Leader | None) -> Turn | None:
    """What it sleeps on, if it does."""
    return leader.turn if isinstance(leader, Pending) else leader
