"""The seeds' words for a task's status, mapped once onto ours; for import and display."""

from outlast.domain.lifecycle import Status
from outlast.errors import InvalidInput

STATUS_ALIASES = {
    "claimed": Status.RUNNING,
    "processing": Status.RUNNING,
    "in_progress": Status.RUNNING,
    "rebasing": Status.RUNNING,
    "testing": Status.RUNNING,
    "processed": Status.COMPLETED,
    "succeeded": Status.COMPLETED,
    "expired": Status.PENDING,
}

_BY_WORD = {status.value: status for status in Status} | STATUS_ALIASES


def status_named(word: str) -> Status:
    """The status a word means, in our own vocabulary or in one of the seeds'."""
    try:
        return _BY_WORD[word.lower()]
    except (KeyError, AttributeError):
        known = ", ".join(status.value for status in Status)
        raise InvalidInput(f"{word!r} is not a status; use one of {known}") from None
