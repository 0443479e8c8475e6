"""Names people give: kinds, queues, groups, workers, ids, keys. Short, printable, never empty."""

from outlast.domain.escaping import shown
from outlast.errors import InvalidInput

MAX_NAME_BYTES = 512


def checked_name(value: object, what: str) -> str:
    """A non-empty text without control characters, short enough for an index."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{what} must be a non-empty text, not {shown(value)}")
    if not value.isprintable():
        raise InvalidInput(f"{what} must not contain control characters: {shown(value)}")
    if len(value) * 4 > MAX_NAME_BYTES and len(value.encode()) > MAX_NAME_BYTES:
        raise InvalidInput(f"{what} is longer than {MAX_NAME_BYTES} bytes")
    return plain_text(value)


def checked_names(given: object, what: str) -> tuple[str, ...]:
    """A list of names in its order, without doubles."""
    if not isinstance(given, list | tuple | set | frozenset):
        raise InvalidInput(f"{what} must be a list of names, not {shown(given)}")
    return tuple(dict.fromkeys(checked_name(name, what) for name in given))


def checked_queues(given: object, what: str) -> tuple[str, ...]:
    """A queue's name, or a list of at least one."""
    if not isinstance(given, str | list | tuple | set | frozenset):
        raise InvalidInput(f"{what} must be a name or a list of names, not {shown(given)}")
    if not given and not isinstance(given, str):
        raise InvalidInput(f"{what} must name at least one queue")
    return checked_names((given,) if isinstance(given, str) else given, what)


def checked_flag(value: object, what: str) -> bool:
    """True or False; a number or a word in its place is a mistake."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{what} must be True or False, not {shown(value)}")
    return value


def plain_text(value: str) -> str:
    """The text of an enumeration's member is of another type, which not everything accepts."""
    return str.__str__(value)


def checked_id(value: object) -> str:
    """The id of a task; a Task or a Lease in its place is an easy mistake."""
    if isinstance(value, str):
        if value.encode(errors="replace").decode() != value:
            raise InvalidInput(f"a task's id must be proper text, not {shown(value)}")
        return plain_text(value)
    hint = next(
        (f"; did you mean .{name}?" for name in ("id", "task_id") if hasattr(value, name)), ""
    )
    raise InvalidInput(f"a task's id must be text, not a {type(value).__name__}{hint}")


def checked_whole(value: object, what: str, least: int, most: int) -> int:
    """A whole number within limits; True and 1.0 are not whole numbers here."""
    if type(value) is not int or not least <= value <= most:
        raise InvalidInput(
            f"{what} must be a whole number from {least} to {most}, not {shown(value)}"
        )
    return value
