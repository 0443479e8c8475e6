"""The seam: all that a backend implements; everything else is shared by the engines."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from outlast.domain.integrity import IntegrityResult
from outlast.store.commit.batch import Batch
from outlast.store.future import Listener
from outlast.store.presence import Presence
from outlast.store.records import FlushResult, Opened, SchemaReport, Statement
from outlast.store.topics import Topic
from outlast.store.transaction import Transaction

T = TypeVar("T")


class Sizes(NamedTuple):
    """What a store takes on the disk."""

    database_bytes: int
    wal_bytes: int


class LongRead(Protocol):
    """Many queries of one moment; between them anybody may end it, and the next one says so."""

    def read(self, context: str, query: Callable[[Transaction], T]) -> T:
        """Run a query on the moment at which this read began."""
        ...

    def end(self, because: str) -> None:
        """Let go of the moment."""
        ...


class Turn(Protocol):
    """The right to do something that only one process does at a time; it ends with its process."""

    def close(self) -> None:
        """Let the next one."""
        ...


class Traits(NamedTuple):
    """What is true of an engine for as long as it is open."""

    path: Path
    synchronous: str
    is_exclusive: bool
    opened: Opened
    token_floor: int
    """Tokens begin above it: the store's epoch, raised by restore and salvage."""


class Engine(Protocol):
    """One opening of one database: to look, or to serve."""

    traits: Traits
    closed: bool
    """Whether it had to give up, and must be opened again."""

    @property
    def presence(self) -> Presence:
        """Who uses the store, as far as the engine can tell."""
        ...

    @property
    def write_retries(self) -> int:
        """How often the writers of this process have found the write lock taken."""
        ...

    def read(self, context: str, query: Callable[[Transaction], T]) -> T:
        """Run a query on one consistent snapshot."""
        ...

    def read_long(self, context: str) -> LongRead:
        """A read of many queries, all of which see this moment."""
        ...

    def run_batch(self, batch: Batch) -> None:
        """Run operations in one durable transaction, decide each, answer them, hint to listeners.

        Only the commit queue calls this, from one thread at a time.
        """
        ...

    def run_user_statements(self, statements: Sequence[Statement]) -> None:
        """Run the caller's own statements inside the transaction that is open."""
        ...

    def changes(self) -> int:
        """A number that changes with every commit, by whomever; one cheap question."""
        ...

    def listen(self, topics: frozenset[Topic], *, for_exits: bool = False) -> Listener:
        """Hear of commits that concern these topics, and of workers that end."""
        ...

    def only_one(self, name: str, timeout_seconds: float = 0.0) -> Turn | None:
        """The right to do what this name stands for, alone among all processes; None: not now."""
        ...

    def is_somebodys(self, name: str) -> bool:
        """Whether a process has that right at the moment."""
        ...

    def sizes(self) -> Sizes:
        """What the store takes on the disk."""
        ...

    def schema(self) -> SchemaReport:
        """The schema as it stands."""
        ...

    def check(self, is_quick: bool) -> IntegrityResult:
        """Check the database while it is served."""
        ...

    def flush(self, mode: str) -> FlushResult:
        """Move the content of the WAL into the main file."""
        ...

    def step_aside(self) -> None:
        """Give up the users' lock for an opening to serve in this same process."""
        ...

    def before_close(self) -> None:
        """See to it that what was acknowledged is in our hands before the last writes."""
        ...

    def close(self, *, has_left: bool) -> None:
        """Let go of the database; `has_left` says that nothing of this process is left in it."""
        ...

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: no operation under way, and none begun until resume()."""
        ...

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        ...

    def abandon(self) -> None:
        """In a forked child: let go of what was inherited without unlocking it."""
        ...
