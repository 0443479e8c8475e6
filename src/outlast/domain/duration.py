"""Durations as people write them: seconds, a timedelta, or text such as "5m"."""

import re
from datetime import timedelta

from outlast.domain.escaping import shown
from outlast.errors import InvalidInput

Duration = float | int | str | timedelta

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
LONGEST_MS = 100 * 366 * 86_400_000


def duration_ms(value: Duration, name: str) -> int:
    """The duration in whole milliseconds; `name` is the argument it came from."""
    ms = _raw_ms(value, name)
    if not 0 <= ms <= LONGEST_MS:
        raise InvalidInput(f"{name} must be between 0 and a hundred years, not {shown(value)}")
    return round(ms)


def _raw_ms(value: Duration, name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds() * 1000
    if isinstance(value, str):
        return _text_ms(value, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f'{name} must be seconds or text like "5m", not {shown(value)}')
    return value * 1000


def _text_ms(text: str, name: str) -> float:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise InvalidInput(f'{name} must look like "90s", "5m" or "1h30m", not {shown(text)}')
    return sum(float(number) * _UNIT_MS[unit] for number, unit in parts)
