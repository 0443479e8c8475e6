"""Opening a store: to look, which changes nothing, or to serve, which makes it ready first."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import apsw

from outlast.clock import Instant
from outlast.domain.integrity import IntegrityResult, Verdict
from outlast.domain.orphans import Patience, judge_worker
from outlast.domain.worker import PreviousStop
from outlast.errors import (
    MigrationRefused,
    SchemaError,
    StoreBusy,
    StoreNotFound,
)
from outlast.host import boot
from outlast.logs import logger
from outlast.probes import probe
from outlast.settings import Settings
from outlast.store.presence import Peer
from outlast.store.records import FlushResult, Opened, Principal
from outlast.store.sqlite import migrate
from outlast.store.sqlite.check import Prepared, check_after_bad_stop
from outlast.store.sqlite.connect import (
    connect,
    ensure_wal,
    explained,
    in_our_words,
    refuse_foreign_file,
)
from outlast.store.sqlite.engine import ServingEngine
from outlast.store.sqlite.looking_engine import LookingEngine
from outlast.store.sqlite.path_checks import (
    refuse_foreign,
    refuse_network,
    refuse_own_read_only,
    size_of,
)
from outlast.store.sqlite.presence.peers import signs_of, sweep_strays
from outlast.store.sqlite.readers import Readers
from outlast.store.sqlite.sessions import told_by_the_file
from outlast.store.sqlite.side_folder.session_marker import Left, how_it_was_left
from outlast.store.sqlite.side_folder.side_folder import SideFolder, sync_folder
from outlast.store.sqlite.side_folder.users_lock import UsersLock
from outlast.store.sqlite.transaction import SqliteTransaction
from outlast.store.sqlite.wal import flush

MIGRATION_PATIENCE_SECONDS = 1.0
NEW_FILE = IntegrityResult(Verdict.SKIPPED, reason="the file is new")

MakeEngine = Callable[[SideFolder, UsersLock, Settings, Principal | None, Opened], ServingEngine]

log = logger("outlast.store")


def open_to_look(path: Path, settings: Settings) -> LookingEngine:
    """No migration, no recovery, no flush, no registration; never creates anything."""
    with in_our_words(f"opening {path}", path):
        return _open_to_look(path, settings)


def _open_to_look(path: Path, settings: Settings) -> LookingEngine:
    if size_of(path) < 0:
        raise StoreNotFound(f"there is no store at {path}; enqueue something first")
    refuse_own_read_only(path)
    refuse_network(path, settings)
    folder = SideFolder(path)
    openers = UsersLock(folder)
    if folder.is_made():
        openers.share(settings.open_timeout_seconds)
    try:
        with closing(connect(path, settings.synchronous)) as connection:
            _refuse_unready(connection, path)
    except BaseException:
        openers.release()
        raise
    return LookingEngine(Readers(path, settings.synchronous), folder, openers, settings)


def _refuse_unready(connection: apsw.Connection, path: Path) -> None:
    if not refuse_foreign_file(connection, path):
        raise StoreNotFound(f"{path} is empty; enqueue something first")
    lacking = migrate.pending(connection)
    if lacking:
        raise SchemaError(
            f"{path} lacks migration {lacking[0].number} ({lacking[0].name});"
            " call migrate() or open it to serve before reading from it"
        )


def open_to_serve(
    path: Path,
    settings: Settings,
    now: Instant,
    assists: Principal | None = None,
    make_engine: MakeEngine = ServingEngine,
) -> ServingEngine:
    """Make the store ready if nobody uses it, then join its users."""
    with in_our_words(f"opening {path}", path):
        return _open_to_serve(path, settings, now, assists, make_engine)


def _open_to_serve(
    path: Path,
    settings: Settings,
    now: Instant,
    assists: Principal | None,
    make_engine: MakeEngine,
) -> ServingEngine:
    began = time.monotonic()
    refuse_foreign(path, settings)
    refuse_network(path, settings)
    folder = SideFolder(path)
    folder.make()
    left = how_it_was_left(folder, settings.workspace_for(path))
    openers = UsersLock(folder)
    prepared = Prepared()
    try:
        if not settings.exclusive:
            prepared = _among_others(folder, openers, settings, now)
        elif assists is None:
            # Whom an assistant acts for has made the store ready, and holds the lock for both.
            prepared = _alone(folder, openers, settings, now)
        opened = _opened(left, prepared, time.monotonic() - began)
        return make_engine(folder, openers, settings, assists, opened)
    except BaseException:
        openers.release()
        raise


def _among_others(
    folder: SideFolder, openers: UsersLock, settings: Settings, now: Instant
) -> Prepared:
    """Make the store ready if nobody uses it; join its users once it lacks no migration."""
    prepared = Prepared()
    deadline = time.monotonic() + settings.open_timeout_seconds
    patience_ends: float | None = None
    while True:
        if openers.try_exclusive():
            prepared = prepare(folder, settings, now)
            openers.release()
        openers.share(max(0.0, deadline - time.monotonic()))
        patience_ends = patience_ends or time.monotonic() + MIGRATION_PATIENCE_SECONDS
        # Whoever has just prepared it has applied all of them.
        lacking = [] if prepared.is_sole else _lacking(folder.database, settings)
        if not lacking:
            return prepared
        openers.release()
        if time.monotonic() > patience_ends:
            raise MigrationRefused(
                f"{folder.database} lacks migration {lacking[0].number} and is in use by"
                f" {openers.users_in_words()}; stop it, then open the store again"
            )
        time.sleep(0.02)


def _alone(folder: SideFolder, openers: UsersLock, settings: Settings, now: Instant) -> Prepared:
    """Exclusive mode: the lock that others would share is ours for as long as we serve."""
    if not openers.try_exclusive():
        raise StoreBusy(
            f"{folder.database} is to be used exclusively and is in use by"
            f" {openers.users_in_words()}; stop it, or leave the setting exclusive out"
        )
    openers.keep_exclusive()
    return prepare(folder, settings, now)


def _opened(left: Left, prepared: Prepared, seconds: float) -> Opened:
    if prepared.left is not None:
        left = prepared.left
    previous = left.stop if prepared.is_sole else PreviousStop.IN_USE
    if prepared.is_new:
        previous = PreviousStop.NONE
    return Opened(
        previous,
        left.crashed_at,
        tuple(one.pid for one in left.crashed),
        left.odd,
        left.markers,
        prepared.is_sole,
        prepared.wal_bytes,
        prepared.frames_moved,
        prepared.integrity,
        seconds,
        prepared.flush_was_busy,
        tuple(one.incarnation for one in left.crashed),
    )


def migrate_by_hand(path: Path, settings: Settings, now: Instant) -> list[str]:
    """Apply what is lacking, or refuse, naming those who use the store."""
    with in_our_words(f"migrating {path}", path):
        return _migrate_by_hand_alone(path, settings, now)


def _migrate_by_hand_alone(path: Path, settings: Settings, now: Instant) -> list[str]:
    refuse_network(path, settings)
    refuse_foreign(path, settings)
    folder = SideFolder(path)
    folder.make()
    openers = UsersLock(folder)
    if not openers.try_exclusive():
        openers.share(settings.open_timeout_seconds)
        try:
            lacking = _lacking(path, settings)
        finally:
            openers.release()
        if lacking:
            raise MigrationRefused(
                f"{path} is in use by {openers.users_in_words()}; stop it, then migrate"
            )
        return []
    try:
        return list(prepare(folder, settings, now, by_hand=True).migrated)
    finally:
        openers.release()


def _lacking(path: Path, settings: Settings) -> list[migrate.Migration]:
    with closing(connect(path, settings.synchronous)) as connection:
        refuse_foreign_file(connection, path)
        return migrate.pending(connection)


def prepare(
    folder: SideFolder, settings: Settings, now: Instant, *, by_hand: bool = False
) -> Prepared:
    """Check, create or migrate the file and flush its log; only ever under the exclusive lock.

    Nothing is changed before the file is known to be sound.
    """
    path = folder.database
    wal_bytes = max(0, _size_of_log(path))
    left = how_it_was_left(folder, settings.workspace_for(path))
    if not settings.allow_network_filesystem:
        left = left.found_unused()
    with closing(connect(path, settings.synchronous, create_like=folder.openers)) as connection:
        try:
            ours = refuse_foreign_file(connection, path)
            lacking = migrate.pending(connection)
            integrity = NEW_FILE
            if ours:
                left = told_by_the_file(connection, settings, left)
                probe("open.judged")
                integrity = check_after_bad_stop(connection, path, settings, left)
                probe("open.checked")
            if ours and lacking:
                if settings.migrate == "manual" and not by_hand:
                    raise SchemaError(_migrate_by_hand(path, lacking[0]))
                _refuse_live_leases(connection, folder, now, settings.patience)
            flushed = _bring_up_to_date(connection, path, lacking, now, is_new=not ours)
            sweep_strays(folder, _registered(connection))
        except apsw.Error as error:
            raise explained(error, f"preparing {path}", path) from error
    names = tuple(f"{step.number:04d}_{step.name}" for step in lacking)
    return Prepared(
        True, not ours, wal_bytes, flushed.frames_moved, integrity, names, flushed.busy, left
    )


def _bring_up_to_date(
    connection: apsw.Connection,
    path: Path,
    lacking: Sequence[migrate.Migration],
    now: Instant,
    *,
    is_new: bool,
) -> FlushResult:
    """Nothing before this has changed the file."""
    ensure_wal(connection, path, is_new=is_new)
    for migration in lacking:
        migrate.apply(connection, migration, now)
    sync_folder(path.parent)
    return flush(connection, "truncate")


def _size_of_log(path: Path) -> int:
    """The WAL's size in bytes, -1 when there is none."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return -1


def _registered(connection: apsw.Connection) -> set[str]:
    rows = SqliteTransaction(connection).rows("living_peers", {"incarnation": ""})
    return {Peer(*row).lock_file for row in rows}


def _migrate_by_hand(path: Path, lacking: migrate.Migration) -> str:
    return (
        f"{path} lacks migration {lacking.number} ({lacking.name}) and the setting migrate is"
        ' "manual"; call migrate() when it suits you'
    )


def _refuse_live_leases(
    connection: apsw.Connection, folder: SideFolder, now: Instant, patience: Patience
) -> None:
    """Nobody may be working on a task while its table changes shape."""
    values = {"now": now.utc_ms, "mono": now.mono_ms, "boot_id": boot.boot_id()}
    peers = [Peer(*row) for row in SqliteTransaction(connection).rows("holding_peers", values)]
    alive = [
        peer
        for peer, (sign, _) in zip(peers, signs_of(peers, folder), strict=True)
        if not judge_worker(sign, peer.silent_ms(now), patience).is_dead
    ]
    if alive:
        names = ", ".join(f"{peer.name} (pid {peer.pid})" for peer in alive)
        raise MigrationRefused(
            f"{folder.database} has running tasks held by {names}; let them finish, then migrate"
        )
