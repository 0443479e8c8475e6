"""Names people give: kinds, queues, groups, workers, ids, keys. Short, printable, never empty."""

from outlast.errors import InvalidInput

MAX_NAME_BYTES = 512


def checked_name(value: object, what: str) -> str:
    """A non-empty text without control characters, short enough for an index."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{what} must be a non-empty text, not {value!r}")
    if not value.isprintable():
        raise InvalidInput(f"{what} must not contain control characters: {value!r}")
    if len(value) * 4 > MAX_NAME_BYTES and len(value.encode()) > MAX_NAME_BYTES:
        raise InvalidInput(f"{what} is longer than {MAX_NAME_BYTES} bytes")
    return plain_text(value)


def plain_text(value: str) -> str:
    """The text of an enumeration's member is of another type, which not everything accepts."""
    return str.__str__(value)


def checked_id(value: object) -> str:
    """The id of a task; a Task or a Lease in its place is an easy mistake."""
    if isinstance(value, str):
        if value.encode(errors="replace").decode() != value:
            raise InvalidInput(f"a task's id must be proper text, not {value!r}")
        return plain_text(value)
    hint = next(
        (f"; did you mean .{name}?" for name in ("id", "task_id") if hasattr(value, name)), ""
    )
    raise InvalidInput(f"a task's id must be text, not a {type(value).__name__}{hint}")


def checked_whole(value: object, what: str, least: int, most: int) -> int:
    """A whole number within limits; True and 1.0 are not whole numbers here."""
    if type(value) is not int or not least <= value <= most:
        raise InvalidInput(f"{what} must be a whole number from {least} to {most}, not {value!r}")
    return value
