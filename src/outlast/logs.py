"""What the library says goes through here to the standard `logging`, under the name `outlast`.

Nothing is printed unless the program sets up a handler. Whatever stands in a line cannot act on
who reads it, and what a line is about stands in attributes of its record.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from outlast.domain.escaping import escaped

ROOT = "outlast"

IDS_LISTED = 100

FIELDS = (
    "task_id", "kind", "queue", "attempt", "token", "retry_count", "recovery_count", "status",
    "reason", "worker", "worker_pid", "lock", "subscriber", "run_id", "task_ids", "tasks_put_back",
    "tasks_failed", "dead_workers", "wal_bytes", "duration_seconds", "store",
)  # fmt: skip
"""The attributes that a record of the library may have, each where it makes sense."""

# Without a handler somewhere, logging would print warnings to stderr by itself.
logging.getLogger(ROOT).addHandler(logging.NullHandler())


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger that escapes what is put into its lines, whoever reads them and how."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a line; texts among its values and attributes lose their control characters."""
        if not self.isEnabledFor(level):
            return
        extra: Mapping[str, Any] | None = kwargs.pop("extra", None)
        if extra:
            kwargs["extra"] = {name: _harmless(value) for name, value in extra.items()}
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        self.logger.log(level, msg, *map(_harmless, args), **kwargs)


def _harmless(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple):
        return [_harmless(one) for one in value]
    return escaped(str(value))


def logger(name: str = ROOT) -> Log:
    """The library's logger of this name."""
    return Log(logging.getLogger(name), {})


def about(**fields: Any) -> dict[str, Any]:
    """What a line is about, as its `extra`; what is not known is left out."""
    return {name: value for name, value in fields.items() if value is not None}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The attributes that one of our records has."""
    found = vars(record)
    return {name: found[name] for name in FIELDS if name in found}


class JsonFormatter(logging.Formatter):
    """A line of JSON for each record: when, how grave, who says what, and what it is about.

    It is plain ASCII without a line end in it, whatever stands in the record. Attributes that are
    not the library's own are left out, so that nothing gets into a log by chance.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        # Only programs that ask for this formatter need it.
        import json

        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        data: dict[str, Any] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        data |= fields_of(record)
        if record.exc_info:
            data["traceback"] = self.formatException(record.exc_info)
        return json.dumps(data, default=str)


def from_elsewhere(level: int, name: str, text: str, fields: Mapping[str, Any]) -> None:
    """Log what another process of ours would have logged, had it a log that people read."""
    log = logging.getLogger(name)
    if log.isEnabledFor(level):
        log.log(level, "%s", text, extra=cast(dict[str, Any], dict(fields)))
