"""A signal's handler, or a finalizer, that uses the store while its own thread opens it."""

from pathlib import Path

import pytest

from outlast import Outlast, StoreError, usual_recovery
from outlast.store.session import Session


def test_it_is_refused_at_once_and_the_opening_goes_on(database: Path) -> None:
    """Guards against a thread that waits for itself, until the opening's time limit is up."""
    refused: list[str] = []

    def struck(session: Session) -> None:
        with pytest.raises(StoreError) as caught:
            app.enqueue("from a handler")
        refused.append(str(caught.value))
        usual_recovery(session)

    app = Outlast(database, recovery=struck)
    app.enqueue("work", id="t")
    assert len(refused) == 1
    assert "while this same thread opens it" in refused[0]
    assert [task.id for task in app.tasks()] == ["t"]
    app.close()


def test_after_an_opening_that_failed_the_next_one_is_not_refused(database: Path) -> None:
    def fails(session: Session) -> None:
        raise KeyboardInterrupt

    app = Outlast(database, recovery=fails)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            app.enqueue("work")
