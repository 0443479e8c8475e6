"""Text for terminals and pipes: what came from a store is made harmless here, on its way out."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from outlast.domain.escaping import escaped

DEBUG_VARIABLE = "OUTLAST_DEBUG"

_ELLIPSIS = "…"
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_AGES = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))

safe = escaped
"""What every text passes through on its way to a terminal or a pipe."""


def safe_json(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON in plain ASCII, so that no text of a store can act on a terminal."""
    # The help needs none of it.
    import json

    return json.dumps(value, indent=indent, default=_plain)


def _plain(value: object) -> str:
    return stamp(value) if isinstance(value, datetime) else str(value)


def now() -> datetime:
    """The present moment, which ages are counted from."""
    from outlast import SystemClock

    return datetime.fromtimestamp(SystemClock().now().utc_ms / 1000, UTC)


def stamp(at: datetime | None) -> str:
    """A moment as UTC to the millisecond; nothing for nothing."""
    if at is None:
        return ""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(at: datetime | None) -> str | None:
    """The same for JSON, where nothing is null."""
    return None if at is None else stamp(at)


def span(seconds: float) -> str:
    """A length of time in its two largest units: 3d 4h, 12m 5s, 1.2s, 35ms."""
    if seconds < 0:
        return "-" + span(-seconds)
    if seconds < 0.9995:
        return f"{round(seconds * 1000)}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    parts: list[str] = []
    for unit_seconds, unit in _AGES:
        count, whole = divmod(whole, unit_seconds)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def age(at: datetime | None, until: datetime) -> str:
    """How long ago something was; nothing for nothing."""
    return "" if at is None else span((until - at).total_seconds())


def size(count_bytes: int) -> str:
    """A number of bytes as people say it."""
    amount = float(count_bytes)
    for unit in _SIZES:
        if amount < 1024 or unit == _SIZES[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit takes everything")


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 task, 2 tasks."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def few(texts: Sequence[str], limit: int, total: int | None = None) -> list[str]:
    """The first of them, and how many more there are."""
    more = (len(texts) if total is None else total) - min(len(texts), limit)
    return [*texts[:limit], f"and {more:,} more"] if more > 0 else list(texts)


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits, with a sign that more was there."""
    return text if len(text) <= width else text[: width - 1] + _ELLIPSIS


def width_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(one) for one in text)


def _columns(one: str) -> int:
    import unicodedata

    if unicodedata.combining(one):
        return 0
    return 2 if unicodedata.east_asian_width(one) in "WF" else 1


def is_debugging() -> bool:
    """Whether errors are to be shown with their tracebacks."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
