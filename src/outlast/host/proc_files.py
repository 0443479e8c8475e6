"""The small text files in which the kernel tells of itself."""

from pathlib import Path


def read_text(path: str) -> str | None:
    """The text of a small kernel file, or None where there is no such thing."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
