"""How an error shows a value that somebody gave: briefly, whatever it is."""

from reprlib import Repr

_brief = Repr()
_brief.maxlevel = 3
_brief.maxstring = _brief.maxother = _brief.maxlong = 120


def shown(value: object) -> str:
    """Like `repr`, but bounded in length and depth, and without failing where that fails."""
    return _brief.repr(value)
