"""What the values of a setting may be: as Python has them, and as text in files and variables."""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

from outlast.domain.duration import LONGEST_MS, duration_ms
from outlast.domain.escaping import shown
from outlast.domain.names import checked_name
from outlast.errors import InvalidInput

_LONGEST_SECONDS = LONGEST_MS // 1000
_WORDS = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


class Rule(Protocol):
    """One sort of setting; `label` says in the error which setting it was, and where it stood."""

    def check(self, value: Any, label: str) -> None:
        """Refuse a value that is not what the setting has to be."""
        ...

    def read(self, value: Any, label: str) -> Any:
        """The checked value behind what was written, be it text or the value itself."""
        ...


class Seconds(NamedTuple):
    """A period; only where it may be left open it may be None."""

    least: float = 0.001
    may_be_open: bool = False

    def check(self, value: Any, label: str) -> None:
        """Refuse what is no number of seconds, too short, or endless."""
        if value is None and self.may_be_open:
            return
        if not (_is_number(value) and self.least <= value <= _LONGEST_SECONDS):
            _refuse(label, f"a number of seconds from {self.least:g} to a hundred years", value)

    def read(self, value: Any, label: str) -> Any:
        """Seconds, a timedelta, or text such as 90, 0.5 or 5m."""
        seconds = _seconds_of(value, label)
        self.check(seconds, label)
        return seconds


class Whole(NamedTuple):
    """A count."""

    least: int = 0
    most: int = 1_000_000

    def check(self, value: Any, label: str) -> None:
        """Refuse what is no whole number within the limits; True is none."""
        if type(value) is not int or not self.least <= value <= self.most:
            _refuse(label, f"a whole number from {self.least} to {self.most}", value)

    def read(self, value: Any, label: str) -> Any:
        """A whole number, or its digits."""
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        self.check(value, label)
        return value


class Switch:
    """On or off."""

    def check(self, value: Any, label: str) -> None:
        """Refuse what is neither True nor False."""
        if type(value) is not bool:
            _refuse(label, "true or false", value)

    def read(self, value: Any, label: str) -> Any:
        """True or False, or one of the words people use for them."""
        if isinstance(value, str):
            value = _WORDS.get(value.strip().lower(), value)
        self.check(value, label)
        return value


class OneOf(NamedTuple):
    """A word out of a few."""

    words: tuple[str, ...]

    def check(self, value: Any, label: str) -> None:
        """Refuse every other word."""
        if not isinstance(value, str) or value not in self.words:
            _refuse(label, f"one of {', '.join(self.words)}", value)

    def read(self, value: Any, label: str) -> Any:
        """The word, in capitals or not; YAML says False where `off` has no quotes."""
        word = value.strip().lower() if isinstance(value, str) else value
        if word is False and "off" in self.words:
            word = "off"
        self.check(word, label)
        return word


class ByKind(NamedTuple):
    """A value of its own for some kinds of task."""

    rule: Rule
    what: str
    example: str

    def check(self, value: Any, label: str) -> None:
        """Refuse what is no dict, and name the kind whose value cannot work."""
        self._each(value, label, self.rule.check)

    def read(self, value: Any, label: str) -> Any:
        """A dict of kinds to values, or text such as render=10m,mail=30s."""
        if isinstance(value, str):
            pairs = [pair.rpartition("=") for pair in value.split(",")]
            if not all(kind.strip() and sign for kind, sign, _ in pairs):
                _refuse(label, f'text like "{self.example}"', value)
            value = {kind.strip(): one for kind, _, one in pairs}
        return self._each(value, label, self.rule.read)

    def _each(self, value: Any, label: str, verb: Callable[[Any, str], Any]) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            _refuse(label, f"a dict of kinds to {self.what}", value)
        return {
            checked_name(kind, f"a kind in {label}"): verb(one, f"{label}[{kind!r}]")
            for kind, one in value.items()
        }


class Folder:
    """The path of a folder; it need not exist yet."""

    def check(self, value: Any, label: str) -> None:
        """Refuse what cannot be the path of anything."""
        if value is None:
            return
        text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
        if not isinstance(text, str) or not text or not text.isprintable():
            _refuse(label, "the path of a folder", value)
        at_home(text, label)

    def read(self, value: Any, label: str) -> Any:
        """The path as it was given; who knows what it is relative to makes it absolute."""
        self.check(value, label)
        return None if value is None else at_home(value, label)


def at_home(path: str | os.PathLike[str], label: str) -> Path:
    """The path with ~ replaced by the folder it stands for."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InvalidInput(f"{label} names a home folder that nobody has: {path}") from error


def _seconds_of(value: Any, label: str) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return duration_ms(value.strip(), label) / 1000


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refuse(label: str, what: str, value: object) -> NoReturn:
    raise InvalidInput(f"{label} must be {what}, not {shown(value)}")
