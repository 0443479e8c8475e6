from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast import Outlast, PermanentError
from outlast.testing import (
    assert_completed,
    assert_enqueued,
    assert_failed,
    assert_no_pending,
    drain,
)


@pytest.fixture
def mail(app: Outlast) -> Any:
    @app.task(queue="mails")
    def mail(to: str, at: datetime | None = None) -> str:
        if to == "nobody":
            raise PermanentError("no such address")
        return f"sent to {to}"

    return mail


def test_what_was_enqueued_is_found_by_kind_payload_and_queue(app: Outlast, mail: Any) -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    first = mail.enqueue("ada", noon)
    second = mail.enqueue("bob")
    assert assert_enqueued(app, "mail").id == second.id
    assert assert_enqueued(app, mail, {"to": "ada", "at": noon}).id == first.id
    assert assert_enqueued(app, "mail", {"to": "bob"}, queue="mails").id == second.id
    drain(app)
    assert assert_enqueued(app, mail, {"to": "bob"}).status == "completed"


def test_nothing_enqueued_can_be_asserted_by_its_payload_alone(app: Outlast, mail: Any) -> None:
    app.enqueue("tick")
    assert assert_enqueued(app, "tick", None).payload is None
    with pytest.raises(AssertionError, match=r"kind 'tick' with payload {'n': 1}"):
        assert_enqueued(app, "tick", {"n": 1})


def test_what_was_not_enqueued_is_told_with_what_is_there(app: Outlast, mail: Any) -> None:
    with pytest.raises(AssertionError) as told:
        assert_enqueued(app, mail)
    assert str(told.value) == "no task of kind 'mail' was enqueued; there are no tasks at all"
    mail.using(id="t1").enqueue("ada")
    mail.using(id="t2", delay="1h").enqueue("x" * 500)
    with pytest.raises(AssertionError) as told:
        assert_enqueued(app, mail, {"to": "bob"}, queue="other")
    fact, later, first = str(told.value).splitlines()
    assert fact == (
        "no task of kind 'mail' in queue 'other' with payload {'to': 'bob'} was enqueued;"
        " there are:"
    )
    assert first == "  mail t1 (pending, queue mails) {'to': 'ada'}"
    assert later.startswith("  mail t2 (pending, delay, queue mails) {'to': 'xxx")
    assert len(later) < 300


def test_only_some_of_many_tasks_are_told(app: Outlast) -> None:
    app.enqueue_many("work", range(500))
    with pytest.raises(AssertionError) as told:
        assert_no_pending(app)
    lines = str(told.value).splitlines()
    assert lines[0] == "500 tasks are pending; there are:"
    assert (len(lines), lines[-1]) == (12, "  and 490 more")


def test_completed_and_failed_tasks_are_found_by_id_kind_function_or_record(
    app: Outlast, mail: Any
) -> None:
    good, bad = mail.enqueue("ada"), app.enqueue("mail", {"to": "nobody"})
    other = app.task(name="other")(_nothing).enqueue()
    drain(app)
    assert assert_completed(app, good.id).result == "sent to ada"
    assert assert_completed(app, good).id == good.id
    assert assert_completed(app, "other").id == other.id
    assert assert_completed(app, app.functions["other"]).id == other.id
    assert assert_failed(app, bad, "no such address").attempt == 1
    assert assert_failed(app, bad.id).id == bad.id


def _nothing() -> None: ...


REFUSED: list[tuple[Callable[[Outlast], object], str]] = [
    (lambda app: assert_completed(app, "bad"), "not every task of 'bad' completed; .*no such"),
    (lambda app: assert_completed(app, "mail"), "not every task of 'mail' completed"),
    (lambda app: assert_completed(app, "gone"), "no task has the id or kind 'gone'"),
    (lambda app: assert_failed(app, "good"), "not every task of 'good' failed; .*completed"),
    (lambda app: assert_failed(app, "mail"), "not every task of 'mail' failed"),
    (lambda app: assert_failed(app, "bad", "disk full"), "'bad' failed with 'disk full'"),
    (assert_no_pending, r"^1 task is pending; there are:.*later"),
    (lambda app: assert_no_pending(app, queue="slow"), "1 task is pending in queue 'slow'"),
]


@pytest.mark.parametrize(("check", "sentence"), REFUSED)
def test_what_does_not_hold_is_told(
    app: Outlast, mail: Any, check: Callable[[Outlast], object], sentence: str
) -> None:
    mail.using(id="good").enqueue("ada")
    mail.using(id="bad").enqueue("nobody")
    drain(app)
    app.enqueue("anything", id="later", queue="slow", delay="1h")
    with pytest.raises(AssertionError, match=f"(?s){sentence}"):
        check(app)
    assert_no_pending(app, queue="mails")
