"""The thread of a subscription: reads the stream page by page, tells it, stores how far it is.

It reads in short snapshots and holds none while the function runs, so that a slow one holds up
nobody. Its only write is the cursor of its name, after what is before it has been told.
"""

import inspect
import logging
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from outlast.domain.budgets import Backoff
from outlast.domain.events import MISSED, Cursor, Event, Page, Place
from outlast.errors import InvalidInput, OutlastError
from outlast.host.waker import Waker
from outlast.logs import about
from outlast.probes import probe
from outlast.store.change_watch import POLL_SECONDS
from outlast.store.future import Listener
from outlast.store.session import Session

if TYPE_CHECKING:
    from outlast.store.engine import Turn

OnError = Literal["retry", "skip", "stop"]

PAGE = 100
"""How many events are told, at most, before their place is stored: what may be told again."""
STORE_SECONDS = 1.0
"""How long told events wait for their place to be stored when the function is slow."""
PASSED_BY = 10_000
PASSED_BY_SECONDS = 60.0
"""How far and how long a place may lag behind events that nobody wanted to be told."""
TURN_SECONDS = 0.25
LONGEST_SLEEP_SECONDS = 3600.0
# A cursor that does not move lapses one day; one that is attended says so in good time.
SIGNS_OF_LIFE = 8
BACKOFF = Backoff(100, 30_000)

NEEDS_A_LOOP = "a coroutine function is told of events by AsyncOutlast.subscribe, on its loop"

_AFTER_ALL_TRIES = {"skip": "it is skipped", "stop": "the subscription ends"}


class Wanted(NamedTuple):
    """Which events somebody wants; gaps in the stream concern everybody."""

    kinds: frozenset[str] | None = None
    families: tuple[str, ...] = ()
    task_id: str | None = None

    def takes(self, event: Event) -> bool:
        """Whether this one is wanted."""
        if event.kind == MISSED:
            return True
        if self.task_id is not None and event.task_id != self.task_id:
            return False
        return (
            self.kinds is None
            or event.kind in self.kinds
            or bool(self.families and event.kind.startswith(self.families))
        )


class Terms(NamedTuple):
    """How a subscriber wants to be told."""

    name: str | None
    wanted: Wanted
    on_error: OnError
    tries: int


def refuse_awaitable(answer: object) -> None:
    """Nobody awaits it here, so whoever answers with one has not heard the event."""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise InvalidInput(NEEDS_A_LOOP)


def _in_short(error: Exception) -> str:
    """Never a foreign message, which may quote a task's content: the type, and where it was."""
    if str(error) == NEEDS_A_LOOP:
        return NEEDS_A_LOOP
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"


class _Over(Exception):
    """Nothing more is told."""


class Delivery:
    """What a subscription's thread does, and how far it is."""

    def __init__(
        self, session: Session, tell: Callable[[Event], object], terms: Terms, start: Place
    ) -> None:
        self._session = session
        self._store = session.store
        self._tell = tell
        self._terms = terms
        self._stopping = threading.Event()
        self._waker = Waker()
        self._moved = threading.Condition()
        self._told = 0
        """Events told since the place was stored."""
        self._stored = start.cursor
        self._born = start.born
        self._stored_at = self._told_at = time.monotonic()
        self._sign_utc_ms = session.now().utc_ms
        self.at = start.cursor
        self.error: BaseException | None = None
        self.is_over = False

    @property
    def label(self) -> str:
        """What the log calls it."""
        return "a subscriber" if self._terms.name is None else f"subscriber {self._terms.name}"

    def stop(self) -> None:
        """Tell nothing more; what is being told is told to its end."""
        self._stopping.set()
        self._waker.wake()

    def wait_until(self, place: Cursor, timeout_seconds: float | None) -> bool:
        """Whether all up to a place has been told, and stored if there is a name for it."""
        with self._moved:
            self._moved.wait_for(lambda: self._is_behind(place) or self.is_over, timeout_seconds)
            return self._is_behind(place)

    def _is_behind(self, place: Cursor) -> bool:
        return self.at.reaches(place) and not (self._told and self._terms.name is not None)

    def run(self) -> None:
        """The whole life of the thread."""
        turn: Turn | None = None
        try:
            turn = self._turn()
            self._follow()
        except _Over:
            pass
        except BaseException as error:
            self.error = error
            self._session.log.error(
                "%s has ended at %s: %s: %s", self.label, str(self.at), type(error).__name__,
                error, extra=about(subscriber=self._terms.name),
            )  # fmt: skip
        finally:
            self._store_quietly()
            if turn is not None:
                turn.close()
            with self._moved:
                self.is_over = True
                self._moved.notify_all()
            self._waker.close()

    def _turn(self) -> "Turn | None":
        """Wait until nobody else delivers under the name; then go on where the last one was."""
        name = self._terms.name
        if name is None:
            return None
        while not self._stopping.is_set():
            try:
                turn = self._turn_now(name)
                if turn is not None:
                    return turn
            except OutlastError as error:
                self._pause_after(error)
            self._stopping.wait(TURN_SECONDS)
        raise _Over

    def _turn_now(self, name: str) -> "Turn | None":
        turn = self._store.events.turn(name)
        try:
            at = self._still_subscribed(name)
        except BaseException:
            if turn is not None:
                turn.close()
            raise
        if turn is not None:
            self.at = self._stored = at
        return turn

    def _still_subscribed(self, name: str) -> Cursor:
        """The stored place of the name, unless it was forgotten, and perhaps begun anew since."""
        found = self._store.events.cursor(name)
        if found is None or found.born != self._born:
            self._session.log.info("%s is no longer subscribed", self.label)
            self._told = 0
            raise _Over
        return found.cursor

    def _follow(self) -> None:
        with closing(self._store.news_listener()) as listener:
            while not self._stopping.is_set():
                try:
                    seen = self._store.changes()
                    if self._terms.name is not None:
                        self._still_subscribed(self._terms.name)
                    page = self._store.events.page(self.at, PAGE, self._session.now())
                    self._deliver(page)
                    self._store_if_due()
                    if page.is_last and not self._stopping.is_set():
                        self._sleep(listener, seen)
                except OutlastError as error:
                    self._pause_after(error)

    def _pause_after(self, error: OutlastError) -> None:
        if self._store.closed or self._session.ended:
            if not self._stopping.is_set():
                self._session.log.warning("%s has ended with its store: %s", self.label, error)
            raise _Over from error
        self._session.log.warning(
            "%s cannot go on and tries again: %s", self.label, error,
            extra=about(subscriber=self._terms.name),
        )  # fmt: skip
        self._stopping.wait(STORE_SECONDS)

    def _deliver(self, page: Page) -> None:
        for event in page.events:
            if self._stopping.is_set():
                return
            if self._terms.wanted.takes(event):
                self._tell_until_heard(event)
                self._told_at = self._told_at if self._told else time.monotonic()
                self._told += 1
            self.at = event.cursor
            if self._told and time.monotonic() - self._told_at >= STORE_SECONDS:
                self._store_place()
        self.at = page.end
        with self._moved:
            self._moved.notify_all()

    def _tell_until_heard(self, event: Event) -> None:
        failures = 0
        while True:
            probe("subscriber.telling")
            try:
                refuse_awaitable(self._tell(event))
            except Exception as error:
                failures += 1
                self._give_up_or_wait(event, error, failures)
                if self._terms.on_error == "skip" and failures >= self._terms.tries:
                    return
            else:
                probe("subscriber.told")
                return

    def _give_up_or_wait(self, event: Event, error: Exception, failures: int) -> None:
        terms = self._terms
        is_final = terms.on_error != "retry" and failures >= terms.tries
        self._session.log.log(
            logging.ERROR if is_final else logging.WARNING,
            "%s failed %s at %s of %s (%s); %s",
            self.label, "once" if failures == 1 else f"{failures} times", event.kind,
            str(event.cursor), _in_short(error),
            _AFTER_ALL_TRIES[terms.on_error] if is_final else "it is told again",
            extra=about(subscriber=terms.name, task_id=event.task_id, reason=event.kind),
        )  # fmt: skip
        if is_final and terms.on_error == "skip":
            return
        # What was told before must not be told again and again meanwhile.
        self._store_quietly()
        if is_final:
            self.error = error
            raise _Over from error
        wait_ms = BACKOFF.delay_ms(failures - 1, self._session.jitter())
        if self._stopping.wait(wait_ms / 1000):
            raise _Over from error

    def _store_if_due(self) -> None:
        """At the end of a page: at once what was told, now and then what was only passed by."""
        passed = self.at.pos - self._stored.pos + self.at.task_seq - self._stored.task_seq
        waited_seconds = time.monotonic() - self._stored_at
        if (
            self._told
            or passed >= PASSED_BY
            or (passed and waited_seconds >= PASSED_BY_SECONDS)
            or self._owes_a_sign()
        ):
            self._store_place()

    def _owes_a_sign(self) -> bool:
        silent_ms = self._session.now().utc_ms - self._sign_utc_ms
        return silent_ms * SIGNS_OF_LIFE > self._session.settings.cursor_retention_seconds * 1000

    def _store_place(self) -> None:
        """Store how far it is; there is nothing to store for one without a name."""
        name, now = self._terms.name, self._session.now()
        place = Place(self.at, self._born)
        if name is not None and not self._store.events.move_cursor(name, place, now):
            self._still_subscribed(name)
            self._session.log.warning("%s is told by another process as well", self.label)
        self._stored, self._stored_at, self._sign_utc_ms = self.at, time.monotonic(), now.utc_ms
        with self._moved:
            self._told = 0
            self._moved.notify_all()

    def _store_quietly(self) -> None:
        """Store the place if that can be done; what was told is told again if it cannot."""
        try:
            if self._told:
                self._store_place()
        except (OutlastError, _Over) as error:
            self._session.log.info("%s could not store its place: %s", self.label, error)

    def _sleep(self, listener: Listener, seen: int) -> None:
        """Until something was committed. What nobody was told of is stored before long."""
        longest_seconds = LONGEST_SLEEP_SECONDS
        if self.at != self._stored and self._terms.name is not None:
            longest_seconds = STORE_SECONDS if self._told else PASSED_BY_SECONDS
        until = time.monotonic() + longest_seconds
        while (
            not self._stopping.is_set()
            and time.monotonic() < until
            and self._store.changes() == seen
            and not listener.wait(POLL_SECONDS, self._waker.fileno())
        ):
            pass
