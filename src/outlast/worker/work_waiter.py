"""When a store process looks for work: at once while there is some, else after a wake-up."""

from outlast.host import polling
from outlast.store.change_watch import ChangeWatch
from outlast.store.future import Listener
from outlast.store.session import Session


class WorkWaiter:
    """Every listener is woken by each commit, so this one listens only while there is no work."""

    def __init__(self, session: Session) -> None:
        self._store = session.store
        self._watch = ChangeWatch(session.store, None, session)
        self._listener: Listener | None = None
        self.found_no_work = False

    def begin(self) -> None:
        """Start a look: what is committed from now on was not seen by it."""
        self._watch.begin()

    @property
    def is_worth_a_look(self) -> bool:
        """Whether there may be something by now."""
        return not self.found_no_work or self._watch.pause_seconds() == 0

    def found(self, anything: bool, has_room: bool) -> None:
        """Note what came of a look."""
        self.found_no_work = not anything
        if self.found_no_work and self._listener is None:
            self._listener = self._store.work_listener()
            self.found_no_work = self._watch.pause_seconds() > 0
        elif anything and self._listener is not None and not has_room:
            self.close()

    def wait(self, seconds: float, descriptor: int, *, listens: bool) -> None:
        """Sleep until the descriptor has something to read, or a hint comes that is wanted."""
        if self._listener is None or not listens:
            polling.wait_until_readable([descriptor], seconds)
        elif self._listener.wait(min(seconds, self._watch.pause_seconds()), descriptor):
            self.found_no_work = False

    def close(self) -> None:
        """Stop listening."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
