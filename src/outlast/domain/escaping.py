"""What may be anything, made harmless before it is printed or logged."""

from reprlib import Repr

_brief = Repr()
_brief.maxlevel = 3
_brief.maxstring = _brief.maxother = _brief.maxlong = 120


def shown(value: object) -> str:
    """Like `repr`, but bounded in length and depth, and without failing where that fails."""
    return _brief.repr(value)


def escaped(text: str) -> str:
    """The text with every character escaped that could move a cursor or hide what follows.

    Control characters, escape sequences, line ends and marks that turn the direction of writing
    are shown as in Python's source; what can be printed stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
