"""Named points in the flow that do nothing, until a test arms them to kill the process there."""

from collections.abc import Callable

_armed: Callable[[str], None] | None = None


def probe(name: str) -> None:
    """Mark a point between two steps whose order matters for a crash."""
    if _armed is not None:
        _armed(name)


def arm(action: Callable[[str], None] | None) -> None:
    """Call `action` with the name of every probe that is passed; None disarms."""
    global _armed  # noqa: PLW0603 - one process, one armed action, tests only
    _armed = action
