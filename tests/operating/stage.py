"""A process that holds tasks on the real clock, as commands see it."""


def holds(path: str, worker: str) -> None:
    """For a child: it claims what there is, says the ids, and waits."""
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    say([lease.task_id for lease in app.claim(worker, limit=9, lease="1h")])
    hear()
