"""Whether a clerk finds work: it looks while there is some, and listens when the well is dry."""

from outlast.host import kernel
from outlast.store.change_watch import ChangeWatch
from outlast.store.future import Ear
from outlast.store.session import Session


class Well:
    """Others send hints to whoever listens, so nobody listens while there is work enough."""

    def __init__(self, session: Session) -> None:
        self._store = session.store
        self._watch = ChangeWatch(session.store, None, session)
        self._ear: Ear | None = None
        self.is_dry = False

    def begin(self) -> None:
        """About to look: what is committed from now on is news."""
        self._watch.begin()

    @property
    def is_worth_a_look(self) -> bool:
        """Whether there may be something by now."""
        return not self.is_dry or self._watch.pause_seconds() == 0

    def found(self, anything: bool, has_room: bool) -> None:
        """What came of a look."""
        self.is_dry = not anything
        if self.is_dry and self._ear is None:
            self._ear = self._store.ear(for_work=True)
            self.is_dry = self._watch.pause_seconds() > 0
        elif anything and self._ear is not None and not has_room:
            self.close()

    def wait(self, seconds: float, descriptor: int, *, listens: bool) -> None:
        """Sleep until the descriptor has something to read, or a hint comes that is wanted."""
        if self._ear is None or not listens:
            kernel.wait_until_readable([descriptor], seconds)
        elif self._ear.wait(min(seconds, self._watch.pause_seconds()), descriptor):
            self.is_dry = False

    def close(self) -> None:
        """Stop listening."""
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()
