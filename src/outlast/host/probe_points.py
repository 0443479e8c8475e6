"""Named points in the flow that do nothing, until a test arms them to kill the process there."""

from collections.abc import Callable

# Asked before a probe on a path that is measured in microseconds.
is_armed = False

_armed: Callable[[str], None] | None = None


def probe(name: str) -> None:
    """Mark a point between two steps whose order matters for a crash."""
    if _armed is not None:
        _armed(name)


def armed() -> Callable[[str], None] | None:
    """What is called at each probe now, for those who arm another action for a while."""
    return _armed


def arm(action: Callable[[str], None] | None) -> None:
    """Call `action` with the name of every probe that is passed; None disarms."""
    global _armed, is_armed  # noqa: PLW0603 - one process, one armed action, tests only
    _armed = action
    is_armed = action is not None
