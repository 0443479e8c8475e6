"""The library's log on stderr, for commands whose program has not set up logging itself."""

import logging
import sys

from outlast.cli.output.text import safe


class _OnStderr(logging.Handler):
    """Writes to whatever stderr is at that moment; a progress bar may have taken its place."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, unless the program has handlers of its own for all logs."""
        if not logging.getLogger().handlers:
            sys.stderr.write(safe(self.format(record)) + "\n")


class _Short(logging.Formatter):
    """Says what a person needs who did not ask for details."""

    def format(self, record: logging.LogRecord) -> str:
        """The level as a word, and the message."""
        return f"outlast: {record.levelname.lower()}: {record.getMessage()}"


class _Detailed(logging.Formatter):
    """Says when and where as well."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, and the message."""
        at = self.formatTime(record, "%H:%M:%S")
        where = f"{at}.{record.msecs:03.0f} {record.levelname.lower()}"
        return f"{where} {record.name}: {record.getMessage()}"


def turn_on(*, is_verbose: bool) -> None:
    """Show warnings of the library on stderr, or everything it says."""
    log = logging.getLogger("outlast")
    for old in [one for one in log.handlers if isinstance(one, _OnStderr)]:
        log.removeHandler(old)
    handler = _OnStderr()
    handler.setFormatter(_Detailed() if is_verbose else _Short())
    handler.setLevel(logging.DEBUG if is_verbose else logging.WARNING)
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if is_verbose else logging.WARNING)
