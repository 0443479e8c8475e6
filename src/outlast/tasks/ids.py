"""Ids for tasks and checkpoints: made here so that the caller can ask about an unknown outcome."""

import sys

if sys.version_info >= (3, 14):
    from uuid import uuid7
else:
    from uuid_utils import uuid7

__all__ = ["new_id", "new_ids", "uuid7"]


def new_id() -> str:
    """A UUIDv7: unique without asking, and later ones sort after earlier ones."""
    return str(uuid7())


def new_ids(count: int) -> list[str]:
    """So many of them, in order."""
    return [str(uuid7()) for _ in range(count)]
