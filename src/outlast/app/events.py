"""The verbs of an Outlast object around the event stream: read it, follow it, subscribe to it."""

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from outlast.app.event_delivery import NEEDS_A_LOOP, OnError, Terms, Wanted
from outlast.app.handle import StoreHandle
from outlast.app.subscription import Subscription
from outlast.clock import Instant
from outlast.domain.escaping import shown
from outlast.domain.events import (
    MISSED,
    START,
    Cursor,
    Event,
    Place,
    Subscriber,
    checked_kind,
    cursor_of,
)
from outlast.domain.names import checked_id, checked_name, checked_whole
from outlast.errors import InvalidInput
from outlast.store.change_watch import POLL_SECONDS

if TYPE_CHECKING:
    from outlast.store.store import Store

MAX_EVENTS = 100_000
READ_AT_ONCE = 1000
MOST_TRIES = 1_000_000

_ON_ERROR = ("retry", "skip", "stop")


class EventVerbs:
    """What happened, in order, and whoever wants to be told."""

    _handle: StoreHandle

    def events(
        self,
        after: Cursor | str | None = None,
        limit: int = 1000,
        *,
        kinds: str | Sequence[str] | None = None,
        task: str | None = None,
    ) -> list[Event]:
        """What happened behind a place, oldest first; read on behind the last one's `cursor`."""
        wanted = wanted_by(kinds, task)
        limit = checked_whole(limit, "limit", 1, MAX_EVENTS)
        place = START if after is None else cursor_of(after)
        reads, found = self._handle.look(), list[Event]()
        for event in stream(reads, reached(reads, place), wanted, self._handle.now):
            found.append(event)
            if len(found) == limit:
                break
        return found

    def newest_events(
        self,
        limit: int = 20,
        *,
        kinds: str | Sequence[str] | None = None,
        task: str | None = None,
    ) -> list[Event]:
        """The last events, oldest first; all of the stream is read if only some are wanted."""
        wanted = wanted_by(kinds, task)
        limit = checked_whole(limit, "limit", 1, MAX_EVENTS)
        reads, end = self._handle.look(), START
        span = limit
        if wanted == Wanted():
            end = reads.events.end()
        while True:
            # Where rows were removed there are fewer events than places: then look further back.
            start = Cursor(max(0, end.pos - span), max(0, end.task_seq - span))
            found = stream(reads, start, wanted, self._handle.now)
            newest = deque((one for one in found if one.kind != MISSED), maxlen=limit)
            if len(newest) == limit or start == START:
                return list(newest)
            span *= 4

    def follow(
        self,
        after: Cursor | str | None = None,
        *,
        kinds: str | Sequence[str] | None = None,
        task: str | None = None,
    ) -> Iterator[Event]:
        """What happens behind a place, or from now on, as it happens; it never ends by itself."""
        wanted = wanted_by(kinds, task)
        place = None if after is None else cursor_of(after)
        reads = self._handle.look()
        start = reads.events.end() if place is None else reached(reads, place)
        return _followed(reads, start, wanted, self._handle.now)

    def subscribe(
        self,
        fn: Callable[[Event], object],
        name: str | None = None,
        *,
        kinds: str | Sequence[str] | None = None,
        after: Cursor | str | None = None,
        on_error: OnError = "retry",
        tries: int = 5,
    ) -> Subscription:
        """Have a function called with each event, in order, beside all else that goes on.

        Without a name it is told what happens from now on, as long as this process lives. A name
        keeps a durable cursor: each event is told at least once, across restarts and crashes, by
        one process at a time. A function that raises is told the same event again, for ever;
        with `on_error` "skip" or "stop" only so many `tries`.
        """
        if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):
            raise InvalidInput(NEEDS_A_LOOP)
        terms = checked_terms(fn, name, kinds, on_error, tries)
        place = None if after is None else cursor_of(after)
        return begin_subscription(self._handle, fn, terms, place)

    def subscribers(self) -> list[Subscriber]:
        """The names that have a durable cursor, and how far behind each is."""
        idle_seconds = self._handle.settings.cursor_retention_seconds
        return self._handle.look().events.subscribers(self._handle.now(), idle_seconds)

    def unsubscribe(self, name: str) -> bool:
        """Forget the durable cursor of a name, wherever it is told; False when there is none."""
        name = checked_name(name, "name")
        return self._handle.serve().store.events.delete_cursor(name)


def wanted_by(kinds: str | Sequence[str] | None, task: str | None) -> Wanted:
    """A choice of events as it was asked for: kinds by name, or all that begin like `task.*`."""
    task_id = None if task is None else checked_id(task)
    if kinds is None:
        return Wanted(task_id=task_id)
    listed = [kinds] if isinstance(kinds, str) else list(kinds)
    if not listed:
        raise InvalidInput("kinds must name at least one kind of event, such as task.failed")
    names = [checked_kind(checked_name(kind, "kind of event")) for kind in listed]
    families = tuple(name[:-1] for name in names if name.endswith(".*"))
    return Wanted(frozenset(names), families, task_id)


def checked_terms(
    fn: object,
    name: str | None,
    kinds: str | Sequence[str] | None,
    on_error: OnError,
    tries: int,
) -> Terms:
    """How a subscriber wants to be told, if that can work."""
    if not callable(fn):
        raise InvalidInput(f"subscribe needs a function to call with each event, not {shown(fn)}")
    if on_error not in _ON_ERROR:
        raise InvalidInput(f"on_error must be one of {', '.join(_ON_ERROR)}, not {shown(on_error)}")
    tries = checked_whole(tries, "tries", 1, MOST_TRIES)
    checked = None if name is None else checked_name(name, "name")
    return Terms(checked, wanted_by(kinds, None), on_error, tries)


def begin_subscription(
    handle: StoreHandle, tell: Callable[[Event], object], terms: Terms, place: Cursor | None
) -> Subscription:
    """Tell from now on: when this returns, nothing that happens later is missed."""
    session = handle.serve()
    if place is not None:
        reached(session.store, place)
    if terms.name is not None:
        start = session.store.events.begin_cursor(terms.name, place, session.now())
    else:
        start = Place(session.store.events.end() if place is None else place)
    return Subscription(session, tell, terms, start)


def reached(reads: "Store", place: Cursor) -> Cursor:
    """A place that was given, unless it lies behind the end and so is of another store."""
    end = reads.events.end()
    if not end.reaches(place):
        raise InvalidInput(f"this stream ends at {end}; {place} is not the cursor of an event here")
    return place


def stream(
    reads: "Store", start: Cursor, wanted: Wanted, now: Callable[[], Instant]
) -> Iterator[Event]:
    """Every wanted event behind a place, up to where the stream ends now."""
    while True:
        page = reads.events.page(start, READ_AT_ONCE, now())
        yield from filter(wanted.takes, page.events)
        start = page.end
        if page.is_last:
            return


def _followed(
    reads: "Store", start: Cursor, wanted: Wanted, now: Callable[[], Instant]
) -> Iterator[Event]:
    with closing(reads.news_listener()) as listener:
        while True:
            seen = reads.changes()
            page = reads.events.page(start, READ_AT_ONCE, now())
            yield from filter(wanted.takes, page.events)
            start = page.end
            while page.is_last and reads.changes() == seen and not listener.wait(POLL_SECONDS):
                pass
