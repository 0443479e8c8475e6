"""Subscribers within one process: order, places that last, errors, slowness, and endings."""

import logging
import threading
from collections.abc import Callable
from functools import partial

import pytest

from outlast import Event, InvalidInput, Outlast
from outlast.testing import ManualClock
from tests.events.conftest import DEADLINE_SECONDS, Listener, short, wait_until
from tests.store.hand import engine_of
from tests.store.trace import Trace

POLL = "PRAGMA data_version"


def test_one_without_a_name_is_told_what_happens_from_now_on(
    app: Outlast, listener: Listener, clock: ManualClock
) -> None:
    app.enqueue("work", id="before")
    with app.subscribe(listener) as subscription:
        app.enqueue("work", id="after")
        # What has the same time may come in either order, as it was read together or not.
        clock.advance("1s")
        app.claim("w")
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert short(listener.told) == [("task.enqueued", "after"), ("task.claimed", "before")]
    assert app.subscribers() == []


@pytest.mark.proves("OBS-05")
def test_a_name_goes_on_where_it_was_after_its_process_was_away(
    make_app: Callable[..., Outlast],
) -> None:
    first, second = Listener(), Listener()
    app = make_app()
    with app.subscribe(first, "audit") as subscription:
        app.enqueue("work", id="a")
        assert subscription.catch_up(DEADLINE_SECONDS)
    app.enqueue("work", id="b")
    app.close()
    app = make_app()
    app.enqueue("work", id="c")
    with app.subscribe(second, "audit", kinds="task.*") as subscription:
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert short(first.told) == [("task.enqueued", "a")]
    assert short(second.told) == [("task.enqueued", "b"), ("task.enqueued", "c")]


def test_a_new_name_may_begin_at_the_start(app: Outlast, listener: Listener) -> None:
    app.enqueue("work", id="a")
    with app.subscribe(listener, "audit", after="0.0") as subscription:
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert listener.told == app.events()
    assert listener.kinds[:2] == ["recovery.started", "recovery.completed"]


def test_only_the_wanted_are_told_and_the_place_passes_the_others(
    app: Outlast, listener: Listener
) -> None:
    with app.subscribe(listener, "audit", kinds=["task.claimed"]) as subscription:
        app.enqueue_many("work", range(5))
        app.claim("w")
        assert subscription.catch_up(DEADLINE_SECONDS)
        assert subscription.cursor.reaches(app.events()[-1].cursor)
    assert listener.kinds == ["task.claimed"]


def test_a_function_that_fails_is_told_again_until_it_does_not(
    app: Outlast, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing overtakes the event that it failed at, and each failure is in the log."""
    listener.fails = lambda event: event.task_id == "b" and listener.failures < 3
    with caplog.at_level(logging.WARNING), app.subscribe(listener, "audit") as subscription:
        for task_id in "abc":
            app.enqueue("work", id=task_id)
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert [event.task_id for event in listener.told] == ["a", "b", "c"]
    complaints = [one for one in caplog.messages if "told again" in one]
    assert len(complaints) == listener.failures == 3
    assert all("(OSError at conftest.py:" in one for one in complaints)
    assert "the alarm bell is broken" not in caplog.text, "it may quote what was told"


async def _never_awaited(event: Event) -> None:
    raise AssertionError("nobody runs this")


class _AsyncBell:
    async def __call__(self, event: Event) -> None:
        raise AssertionError("nobody runs this")


@pytest.mark.parametrize("fn", [_never_awaited, partial(_never_awaited), _AsyncBell()])
def test_a_coroutine_function_is_refused_where_nobody_would_await_it(
    app: Outlast, fn: Callable[[Event], object]
) -> None:
    app.open()
    with pytest.raises(InvalidInput, match=r"AsyncOutlast\.subscribe"):
        app.subscribe(fn, "audit")
    assert app.subscribers() == []


@pytest.mark.filterwarnings("error")
def test_a_function_that_answers_with_a_coroutine_has_not_heard_the_event(
    app: Outlast, caplog: pytest.LogCaptureFixture
) -> None:
    """Its cursor would pass every event while none of them was ever dealt with."""

    def forgets_to_await(event: Event) -> object:
        return _never_awaited(event)

    stopped = app.subscribe(forgets_to_await, "audit", on_error="stop", tries=1)
    app.enqueue("work", id="a")
    assert not stopped.catch_up(DEADLINE_SECONDS)
    assert isinstance(stopped.error, InvalidInput)
    assert "AsyncOutlast.subscribe" in caplog.text
    after = Listener()
    with app.subscribe(after, "audit") as subscription:
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert short(after.told) == [("task.enqueued", "a")]


def test_an_event_is_skipped_only_after_so_many_tries_and_said_to_be(
    app: Outlast, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    listener.fails = lambda event: event.task_id == "b"
    with app.subscribe(listener, "audit", on_error="skip", tries=2) as subscription:
        for task_id in "abc":
            app.enqueue("work", id=task_id)
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert [event.task_id for event in listener.told] == ["a", "c"]
    assert listener.failures == 2
    (said,) = [one for one in caplog.records if "it is skipped" in one.getMessage()]
    assert said.levelno == logging.ERROR


def test_one_that_stops_at_an_error_is_told_that_event_first_the_next_time(
    app: Outlast, listener: Listener
) -> None:
    listener.fails = lambda event: event.task_id == "b"
    stopped = app.subscribe(listener, "audit", on_error="stop", tries=2)
    for task_id in "abc":
        app.enqueue("work", id=task_id)
    assert not stopped.catch_up(DEADLINE_SECONDS)
    assert stopped.is_over
    assert isinstance(stopped.error, OSError)
    after = Listener()
    with app.subscribe(after, "audit") as subscription:
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert [event.task_id for event in listener.told + after.told] == ["a", "b", "c"]


def test_what_was_told_is_stored_before_a_failing_event_is_waited_for(
    app: Outlast, listener: Listener
) -> None:
    """Or a function that fails for a day would be told all that came before it again."""
    listener.fails = lambda event: event.task_id == "b"
    ended = app.subscribe(listener, "audit", on_error="stop", tries=1)
    for task_id in "ab":
        app.enqueue("work", id=task_id)
    ended.catch_up(DEADLINE_SECONDS)
    (stored,) = app.subscribers()
    assert stored.cursor == listener.told[-1].cursor
    assert stored.behind == 1


@pytest.mark.parametrize("name", [None, "audit"])
def test_closing_waits_for_the_call_under_way_and_makes_no_other(
    app: Outlast, listener: Listener, name: str | None
) -> None:
    listener.go_on.clear()
    subscription = app.subscribe(listener, name)
    app.enqueue_many("work", range(3))
    assert listener.entered.wait(DEADLINE_SECONDS)
    closing = threading.Thread(target=subscription.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    listener.go_on.set()
    closing.join(DEADLINE_SECONDS)
    assert len(listener.told) == 1
    assert subscription.is_over
    if name is not None:
        assert app.subscribers()[0].cursor == listener.told[0].cursor


def test_closing_the_object_ends_its_subscriptions(app: Outlast, listener: Listener) -> None:
    subscription = app.subscribe(listener, "audit")
    app.enqueue("work", id="a")
    subscription.catch_up(DEADLINE_SECONDS)
    app.close()
    assert subscription.is_over
    assert subscription.error is None


def test_a_function_may_close_its_own_subscription_and_its_object(app: Outlast) -> None:
    told: list[Event] = []

    def once(event: Event) -> None:
        told.append(event)
        subscription.close()

    subscription = app.subscribe(once)
    app.enqueue_many("work", range(3))
    subscription.catch_up(DEADLINE_SECONDS)
    assert subscription.is_over
    assert len(told) == 1
    ended = threading.Event()

    def for_good(event: Event) -> None:
        app.close()
        ended.set()

    app.subscribe(for_good)
    app.enqueue("work")
    assert ended.wait(DEADLINE_SECONDS)


def test_a_function_may_use_the_queue_it_is_told_of(app: Outlast) -> None:
    """Each failed task is followed by another one, which is enqueued while it is told."""

    def follow_up(event: Event) -> None:
        app.enqueue("mourn", id=f"for {event.task_id}")

    with app.subscribe(follow_up, "mourner", kinds="task.failed") as subscription:
        app.enqueue("work", id="a")
        app.fail("a", "no")
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert app.get("for a").status == "pending"


def test_a_name_that_is_forgotten_begins_anew_and_its_deliverer_ends(
    app: Outlast, listener: Listener
) -> None:
    subscription = app.subscribe(listener, "audit")
    app.enqueue("work", id="a")
    subscription.catch_up(DEADLINE_SECONDS)
    assert app.unsubscribe("audit")
    assert not app.unsubscribe("audit")
    app.enqueue("work", id="b")
    subscription.catch_up(DEADLINE_SECONDS)
    assert subscription.is_over
    assert app.subscribers() == []


def test_how_far_each_name_is_can_be_asked(app: Outlast, clock: ManualClock) -> None:
    listener = Listener()
    with app.subscribe(listener, "audit") as subscription:
        app.enqueue("work")
        assert subscription.catch_up(DEADLINE_SECONDS)
    clock.advance("1m")
    app.enqueue_many("work", range(3))
    app.claim("w")
    (found,) = app.subscribers()
    assert (found.name, found.behind, found.has_lapsed) == ("audit", 4, False)
    assert found.cursor == listener.told[-1].cursor


def test_a_slow_subscriber_holds_nothing_while_a_thousand_tasks_come_in(
    app: Outlast, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its function holds still: no snapshot is open, and nobody writes but those who enqueue."""
    trace = Trace(monkeypatch)
    app.open()
    listener.go_on.clear()
    with app.subscribe(listener, "slow") as subscription:
        app.enqueue("work", id="first")
        assert listener.entered.wait(DEADLINE_SECONDS)
        commits = engine_of(app)._database.writer.commits
        with trace.listening() as ran:
            for _ in range(1000):
                app.enqueue("work")
        assert engine_of(app)._database.writer.commits == commits + 1000
        assert not [one for one in ran if "cursors" in one.text]
        flushed = app.flush_wal("truncate")
        assert not flushed.busy
        listener.go_on.set()
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert len(listener.told) == 1001


def test_an_idle_subscriber_writes_nothing_and_reads_no_page(
    app: Outlast, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(monkeypatch)
    app.open()
    with app.subscribe(listener, "audit") as subscription, trace.listening() as ran:
        app.enqueue("work")
        assert subscription.catch_up(DEADLINE_SECONDS)
        wait_until(lambda: len(ran) > 9 and {one.text.strip() for one in ran[-9:]} == {POLL})


def test_tens_of_thousands_that_nobody_wants_cost_a_few_writes(
    app: Outlast, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(monkeypatch)
    app.open()
    with app.subscribe(listener, "deaths", kinds="worker.dead") as subscription:
        with trace.listening() as ran:
            app.enqueue_many("work", range(25_000))
            assert subscription.catch_up(DEADLINE_SECONDS)
        stored = [one for one in ran if one.text.lstrip("- ").startswith("A cursor never falls")]
        assert len(stored) in (1, 2)
    assert listener.told == []


def test_an_attended_name_gives_a_sign_of_life_before_it_would_lapse(
    app: Outlast, listener: Listener, clock: ManualClock
) -> None:
    with app.subscribe(listener, "audit") as subscription:
        app.enqueue("work", id="a")
        assert subscription.catch_up(DEADLINE_SECONDS)
        for _ in range(8):
            clock.advance("5d")
            # Somebody else's commit is what wakes it.
            app.resolve("a")
            wait_until(lambda: app.subscribers()[0].moved_at.timestamp() == _seconds(clock))


def _seconds(clock: ManualClock) -> float:
    return clock.now().utc_ms / 1000


def test_the_log_names_the_place_as_everybody_else_does(
    app: Outlast, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    """So that it can be given to `queue events --after` as it stands there."""
    listener.fails = lambda event: True
    with app.subscribe(listener, "audit", on_error="stop", tries=1) as subscription:
        app.enqueue("work", id="a")
        wait_until(lambda: subscription.is_over)
    (event,) = app.events(task="a")
    assert f"at task.enqueued of {event.cursor} (OSError" in caplog.text
