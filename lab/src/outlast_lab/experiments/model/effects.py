"""What each move of a task does to it, as those who follow the queue expect it."""

from typing import NamedTuple


class Effect(NamedTuple):
    """What a move does: from where to where, and by how much each counter changes."""

    start: str
    end: str
    attempt: int = 0
    retries: int = 0
    recoveries: int = 0
    """Of all crashes and of those in a row: a loss counts as both."""
    token: int = 0


LOST = {
    "retry": ("retry", Effect("running", "pending", recoveries=1)),
    "pending": ("reset", Effect("running", "pending", attempt=-1, recoveries=1)),
    "fail": ("policy_fail", Effect("running", "failed")),
}
_REFUNDED = Effect("running", "pending", attempt=-1)

EFFECTS = {
    "claimed": Effect("pending", "running", attempt=1, token=1),
    "completed": Effect("running", "completed"),
    "retry": Effect("running", "pending", retries=1),
    "permanent_error": Effect("running", "failed"),
    "released": _REFUNDED,
    "waiting": _REFUNDED,
    "never_started": _REFUNDED,
}
