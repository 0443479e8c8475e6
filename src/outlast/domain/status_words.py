"""The seeds' words for a task's status, mapped once onto ours; for import and display."""

from outlast.domain.escaping import shown
from outlast.domain.lifecycle import Status
from outlast.domain.names import checked_name
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


def checked_stage(stage: object) -> str:
    """What a running task says it is at; a word for another status would contradict it."""
    name = checked_name(stage, "stage")
    if _BY_WORD.get(name.lower(), Status.RUNNING) is not Status.RUNNING:
        raise InvalidInput(
            f"stage must not be {name!r}, which is the word for a task that does not run;"
            " choose another"
        )
    return name


def status_named(word: str) -> Status:
    """The status a word means, in our own vocabulary or in one of the seeds'."""
    found = _BY_WORD.get(word.lower()) if isinstance(word, str) else None
    if found is None:
        known = ", ".join(status.value for status in Status)
        raise InvalidInput(f"{shown(word)} is not a status; use one of {known}")
    return found
