"""A subscription as its owner holds it: closed, asked how far it is, waited for."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from outlast.app.event_delivery import Delivery, Terms
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.events import Cursor, Event, Place
from outlast.errors import InvalidInput
from outlast.store.session import Session


class Subscription:
    """Events are told in a thread of its own until it is closed, or its Outlast is."""

    def __init__(
        self, session: Session, tell: Callable[[Event], object], terms: Terms, start: Place
    ) -> None:
        self._session = session
        self._delivery = Delivery(session, tell, terms, start)
        self.name = terms.name
        thread_name = f"outlast-{self._delivery.label.replace(' ', '-')}"
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)
        session.subscriptions.add(self.close)
        try:
            self._thread.start()
        except BaseException:
            session.subscriptions.discard(self.close)
            raise

    def __repr__(self) -> str:
        """Names it, and says where it is."""
        state = "over" if self.is_over else f"at {self.cursor}"
        return f"<Subscription {self.name or 'without a name'}, {state}>"

    def _run(self) -> None:
        try:
            self._delivery.run()
        finally:
            self._session.subscriptions.discard(self.close)

    @property
    def cursor(self) -> Cursor:
        """The place up to which events have been told."""
        return self._delivery.at

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be told."""
        return self._delivery.is_over

    @property
    def error(self) -> BaseException | None:
        """What ended it, if that was an error."""
        return self._delivery.error

    def catch_up(self, timeout: Duration | None = None) -> bool:
        """Wait until all that stands in the stream now is told, and stored under the name."""
        if threading.current_thread() is self._thread:
            raise InvalidInput("a subscriber cannot wait for itself; call catch_up() elsewhere")
        seconds = None if timeout is None else duration_ms(timeout, "timeout") / 1000
        return self._delivery.wait_until(self._session.store.stream_end(), seconds)

    def close(self, timeout: Duration | None = None) -> None:
        """Tell nothing more, and wait for a call of the function that is under way.

        It is waited for as long as `shutdown_seconds` says, unless you say otherwise.
        """
        limit = self._session.settings.shutdown_seconds if timeout is None else timeout
        self._delivery.stop()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(duration_ms(limit, "timeout") / 1000)
        if self._thread.is_alive():
            self._session.log.warning(
                "%s is still at an event, which may be told again", self._delivery.label
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
