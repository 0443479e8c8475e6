"""Opening SQLite the one safe way: apsw, a sound version, WAL, FULL, strict pragmas, read back."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from outlast.errors import (
    DatabaseError,
    EngineTooOld,
    NotAStore,
    StoreBusy,
    StoreError,
    StoreNotFound,
    StoreUnwritable,
)
from outlast.logs import logger
from outlast.store.sqlite.statements import sql

APPLICATION_ID = 0x4F75744C
MINIMUM_SQLITE = (3, 51, 3)
BUSY_TIMEOUT_MS = 5000

_ENDING_A_PATH = str.maketrans({char: f"%{ord(char):02x}" for char in "%?#&"})

log = logger("outlast.store")


def guard_version(version: str | None = None) -> None:
    """Refuse engines with the WAL-reset defect, which loses commits under concurrent flushes."""
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < MINIMUM_SQLITE:
        wanted = ".".join(map(str, MINIMUM_SQLITE))
        raise EngineTooOld(
            f"SQLite {found} can lose commits when writers and WAL flushes meet;"
            f" install apsw with SQLite {wanted} or newer"
        )


def connect(path: Path, synchronous: str, create_like: Path | None = None) -> apsw.Connection:
    """A connection with every pragma set; `create_like` gives a new file its mode."""
    guard_version()
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    uri = "file:" + _quoted(path)
    if create_like is not None:
        flags |= apsw.SQLITE_OPEN_CREATE
        uri += "?modeof=" + _quoted(create_like)
    try:
        connection = apsw.Connection(uri, flags=flags)
    except apsw.Error as error:
        raise explained(error, f"opening {path}", path) from error
    try:
        _configure(connection, synchronous)
    except apsw.Error as error:
        connection.close()
        raise explained(error, f"opening {path}", path) from error
    return connection


def _quoted(path: Path) -> str:
    """A path inside a URI, without the characters that would end it there."""
    return str(path).translate(_ENDING_A_PATH)


def _configure(connection: apsw.Connection, synchronous: str) -> None:
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    # Else a statement whose LIMIT is bound is compiled anew at each run, which takes longer than
    # most of them: a plan must not depend on what is bound.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.wal_autocheckpoint(0)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    for name, value, expected in (
        ("foreign_keys", "ON", 1),
        ("trusted_schema", "OFF", 0),
        ("cell_size_check", "ON", 1),
        ("fullfsync", "ON", 1),
        ("synchronous", synchronous.upper(), {"full": 2, "normal": 1}[synchronous]),
    ):
        connection.pragma(name, value)
        if connection.pragma(name) != expected:
            raise StoreError(f"SQLite did not accept PRAGMA {name}={value}; use another build")


_IS_DAMAGED = "; the file is damaged; keep a copy of it and of its -wal, and restore a backup"


def refuse_foreign_file(connection: apsw.Connection, path: Path) -> bool:
    """Whether the file is ours; False for a new, empty one, an error for anything else."""
    try:
        # In one look: another process may be making the store between two.
        connection.execute("BEGIN")
        try:
            found = connection.pragma("application_id")
            used = connection.execute(sql("count_objects")).get
        finally:
            # An error of the disk may have ended it already, and is what has to be told.
            with suppress(apsw.SQLError):
                connection.execute("ROLLBACK")
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise NotAStore(
            f"{path} is not an Outlast store ({error}); choose another path, or restore a backup"
        ) from error
    if found == APPLICATION_ID:
        return True
    if found == 0 and used == 0:
        return False
    raise NotAStore(
        f"{path} is a SQLite file of another program; choose another path for the store"
    )


def ensure_wal(connection: apsw.Connection, path: Path, is_new: bool) -> None:
    """Switch to WAL and prove it by reading the mode back."""
    before = connection.pragma("journal_mode")
    if before != "wal":
        if not is_new:
            log.warning("journal mode of %s was %s; putting it back to wal", path, before)
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError as error:
            raise StoreError(
                f"{path} is in journal mode {before} and another program keeps it there;"
                " close that program and open the store again"
            ) from error
    if connection.pragma("journal_mode") != "wal":
        raise StoreError(f"{path} does not accept WAL mode; move it to a local disk")


@contextmanager
def in_our_words(context: str, path: Path) -> Iterator[None]:
    """Errors of the engine and of the operating system leave as errors of ours."""
    try:
        yield
    except apsw.Error as error:
        raise explained(error, context, path) from error
    except OSError as error:
        if error.errno is None:
            # No call of the kernel failed: a signal handler raised it.
            raise
        raise StoreUnwritable(
            f"{context} failed ({error.strerror}: {error.filename or path}); see to the disk, the"
            " permissions and the limits of this process, then try again"
        ) from error


def explained(error: apsw.Error, context: str, path: Path) -> StoreError:
    """An engine error as one of ours, told apart by its code and never by its text."""
    if isinstance(error, apsw.CantOpenError) and not path.exists():
        return StoreNotFound(f"there is no store at {path}; enqueue something first")
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreUnwritable(
            f"{path} cannot be written by this user; give it write permission on file and folder"
        )
    if isinstance(error, apsw.NotADBError):
        return NotAStore(f"{path} is not an Outlast store; choose another path")
    if isinstance(error, apsw.BusyError | apsw.ProtocolError):
        return StoreBusy(
            f"{context} failed: another process keeps {path} locked; if it was stopped, resume or"
            " end it, then try again"
        )
    if isinstance(error, apsw.CorruptError):
        return DatabaseError(context, error, _IS_DAMAGED)
    return DatabaseError(context, error)
