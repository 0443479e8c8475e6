"""A name that is forgotten while it is told, and begun anew: the old one must not spoil the new."""

from collections.abc import Callable

from outlast import Outlast
from tests.events.conftest import DEADLINE_SECONDS, Listener, short, wait_until


def test_one_whose_name_is_forgotten_ends_by_itself_and_is_told_nothing_more(
    make_app: Callable[..., Outlast],
) -> None:
    app, operator = make_app(), make_app()
    listener = Listener()
    subscription = app.subscribe(listener, "audit")
    assert subscription.catch_up(DEADLINE_SECONDS)
    assert operator.unsubscribe("audit")
    wait_until(lambda: subscription.is_over)
    operator.enqueue("work", id="later")
    assert (listener.told, subscription.error) == ([], None)
    assert app.subscribers() == []


def test_a_name_that_begins_anew_is_told_all_it_asked_for_although_the_old_one_is_still_there(
    app: Outlast,
) -> None:
    app.enqueue("work", id="a")
    old, new = Listener(), Listener()
    app.subscribe(old, "audit", kinds="task.*", after="0.0").catch_up(DEADLINE_SECONDS)
    app.unsubscribe("audit")
    begun = app.subscribe(new, "audit", kinds="task.*", after="0.0")
    app.enqueue("work", id="b")
    wait_until(lambda: len(new.told) == 2)
    assert begun.catch_up(DEADLINE_SECONDS)
    assert short(new.told) == [("task.enqueued", "a"), ("task.enqueued", "b")]


def test_one_in_the_middle_of_an_event_does_not_move_the_place_of_its_successor(
    app: Outlast,
) -> None:
    old, new = Listener(), Listener()
    old.go_on.clear()
    app.open()
    ended = app.subscribe(old, "audit", kinds="task.*")
    app.enqueue("work", id="a")
    assert old.entered.wait(DEADLINE_SECONDS)
    app.unsubscribe("audit")
    begun = app.subscribe(new, "audit", kinds="task.*", after="0.0")
    old.go_on.set()
    wait_until(lambda: ended.is_over)
    assert begun.catch_up(DEADLINE_SECONDS)
    assert short(new.told) == [("task.enqueued", "a")]


def test_one_that_waits_for_its_turn_ends_when_its_name_is_forgotten(
    make_app: Callable[..., Outlast],
) -> None:
    first, second = make_app(), make_app()
    telling, waiting = Listener(), Listener()
    first.subscribe(telling, "audit")
    subscription = second.subscribe(waiting, "audit")
    first.unsubscribe("audit")
    wait_until(lambda: subscription.is_over)
    assert waiting.told == []
    anew = Listener()
    assert second.subscribe(anew, "audit", after="0.0").catch_up(DEADLINE_SECONDS)
    assert anew.told, "nobody is left who has the turn"
