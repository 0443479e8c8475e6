"""Statements are compiled when first met and never again, whatever is bound to them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from outlast import Outlast
from outlast.testing import ManualClock

ROUNDS = 5


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> "Counter[str]":
    """How often SQLite compiled a statement again that it had compiled before."""
    found: Counter[str] = Counter()

    def ended(event: dict[str, Any]) -> None:
        count = event["stmt_status"]["SQLITE_STMTSTATUS_REPREPARE"]
        text = " ".join(event["sql"].split())
        found[text] = max(found[text], count)

    def hook(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, ended)

    monkeypatch.setattr(apsw, "connection_hooks", [hook])
    return found


def test_no_statement_is_compiled_anew_for_other_values(
    make_app: Callable[..., Outlast], clock: ManualClock, compiled_anew: "Counter[str]"
) -> None:
    """A bound LIMIT alone used to do that: a look for orphans took three times as long."""
    app = make_app()
    app.open()
    compiled_anew.clear()
    for number in range(ROUNDS):
        app.enqueue_many("work", range(10 + number))
        leases = app.claim("w", limit=2 + number)
        leases[0].fail("no")
        app.complete_many([(lease, {"n": number}) for lease in leases[1:]])
        app.claim("w", limit=1 + number)
        clock.advance(600)
        assert app.heal().entries_reclaimed == 1 + number
        app.claim("w", queue="empty")
        app.tasks(limit=5 + number)
        app.workers(limit=5 + number)
    assert len(compiled_anew) > 20, "the statements were seen"
    # What reads the schema anew is one that another connection changed.
    assert {text: n for text, n in compiled_anew.items() if n > 1} == {}
