"""The engine on SQLite, opened only to look: reads, listens, and changes nothing."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from outlast.domain.integrity import IntegrityResult
from outlast.errors import StoreError, StoreReplaced
from outlast.logs import logger
from outlast.settings import Settings
from outlast.store.commit.batch import Batch
from outlast.store.engine import Sizes, Traits
from outlast.store.records import (
    ALREADY_OPEN,
    FlushResult,
    SchemaReport,
    Statement,
)
from outlast.store.sqlite import migrate
from outlast.store.sqlite.file_guard import file_id
from outlast.store.sqlite.presence.own import OwnPresence
from outlast.store.sqlite.presence.presence import SqlitePresence
from outlast.store.sqlite.readers import LongRead, Readers
from outlast.store.sqlite.side_folder.only_one import Turn, Turns
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.side_folder.users_lock import UsersLock
from outlast.store.sqlite.transaction import SqliteTransaction
from outlast.store.sqlite.wakeups.listener import SocketListener
from outlast.store.sqlite.wakeups.notify import Wakeups
from outlast.store.topics import Topic
from outlast.store.transaction import Transaction

T = TypeVar("T")

_LOOKING = "this store was opened only to look; open it to serve"

log = logger("outlast.store")


class LookingEngine:
    """Answers from consistent snapshots; changes nothing."""

    def __init__(
        self, readers: Readers, folder: SideFolder, users: UsersLock, settings: Settings
    ) -> None:
        self._readers = readers
        self._folder = folder
        self._users = users
        self._settings = settings
        self._wakeups = Wakeups(folder)
        self._turns = Turns(folder)
        self._file_id = file_id(folder.database)
        self.closed = False
        self._own = OwnPresence(folder)
        self.presence: SqlitePresence = SqlitePresence(
            folder, users, self._wakeups.exits, self._own
        )
        self.traits = Traits(
            folder.database, settings.synchronous, settings.exclusive, ALREADY_OPEN, 0
        )

    @property
    def write_retries(self) -> int:
        """Who only looks never writes."""
        return 0

    def _refuse_replaced(self) -> None:
        if file_id(self._folder.database) != self._file_id:
            self.closed = True
            raise StoreReplaced(
                f"{self._folder.database} was replaced or removed while it was open; what it held"
                " is no longer to be seen here. Find out who did that, then open it anew"
            )

    def read(self, context: str, query: Callable[[Transaction], T]) -> T:
        """Run a query on one consistent snapshot."""
        self._refuse_replaced()
        return self._readers.read(context, query)

    def read_long(self, context: str) -> LongRead:
        """A read of many queries, all of which see this moment."""
        self._refuse_replaced()
        return self._readers.read_long(context, self._refuse_replaced)

    def changes(self) -> int:
        """A number that changes with every commit, by whomever."""
        # Nobody commits any more to a file that is gone: who waits for it would wait for ever.
        self._refuse_replaced()
        return self._readers.data_version()

    def listen(self, topics: frozenset[Topic], *, for_exits: bool = False) -> SocketListener:
        """Hear of commits that concern these topics, and of workers that end."""
        return self._wakeups.listener(topics, for_exits=for_exits)

    def only_one(self, name: str, timeout_seconds: float = 0.0) -> Turn | None:
        """The right to do what this name stands for, alone among all processes."""
        return self._turns.take(name, timeout_seconds)

    def is_somebodys(self, name: str) -> bool:
        """Whether a process has that right at the moment."""
        return self._turns.is_somebodys(name)

    def sizes(self) -> Sizes:
        """By their names alone: opening and closing the file would drop our locks on it."""
        path = str(self._folder.database)
        return Sizes(_size(path), _size(f"{path}-wal"))

    def schema(self) -> SchemaReport:
        """The schema as it stands."""

        def query(tx: SqliteTransaction) -> SchemaReport:
            done = sorted(migrate.applied(tx.connection))
            definitions: list[Any] = tx.rows("schema_definitions")
            names = {step.number: step.name for step in migrate.all_migrations()}
            steps = tuple(f"{number:04d}_{names.get(number, 'unknown')}" for number in done)
            return SchemaReport(done[-1] if done else 0, steps, dict(definitions))

        self._refuse_replaced()
        return self._readers.read("reading the schema", query)

    def run_batch(self, batch: Batch) -> None:
        """Who only looks has no commit queue, so nobody calls this."""
        raise StoreError(_LOOKING)

    def run_user_statements(self, statements: Sequence[Statement]) -> None:
        """The same."""
        raise StoreError(_LOOKING)

    def check(self, is_quick: bool) -> IntegrityResult:
        """The same."""
        raise StoreError(_LOOKING)

    def flush(self, mode: str) -> FlushResult:
        """The same."""
        raise StoreError(_LOOKING)

    def step_aside(self) -> None:
        """Give up the users' lock for an opening to serve in this same process."""
        self._users.release()

    def before_close(self) -> None:
        """Who only looks has nothing to rescue."""

    def close(self, *, has_left: bool) -> None:
        """Stop looking."""
        self.closed = True
        self._wakeups.close()
        self._readers.close()
        self._users.release()

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: no read under way, and none begun until resume()."""
        return self._readers.quiesce(timeout_seconds)

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        self._readers.resume()

    def abandon(self) -> None:
        """In a forked child: let go of what was inherited without closing it."""
        self.closed = True
        self._wakeups.abandon()
        self._readers.abandon()
        self._users.release()


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
