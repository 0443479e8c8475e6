"""What a commit may concern: whoever listens for it is told to look."""

from enum import StrEnum


class Topic(StrEnum):
    """What somebody waits for: tasks that may be ready, tasks that ended, a lock, any news."""

    WORK = "work"
    DONE = "done"
    LOCK = "lock"
    NEWS = "news"


NOBODY: frozenset[Topic] = frozenset()
FOLLOWING = frozenset({Topic.NEWS})
LOOKING_FOR_WORK = frozenset({Topic.WORK}) | FOLLOWING
WAITING_FOR_RESULTS = frozenset({Topic.DONE}) | FOLLOWING
WAITING_FOR_LOCKS = frozenset({Topic.LOCK}) | FOLLOWING
ANYBODY = frozenset(Topic)
