"""Whether the file is sound, in SQLite's own opinion; asked before anything is changed."""

import time
from pathlib import Path
from typing import NamedTuple

import apsw

from outlast.domain.integrity import IntegrityResult, Verdict
from outlast.domain.worker import PreviousStop
from outlast.errors import RecoveryFailed
from outlast.logs import logger
from outlast.settings import Settings
from outlast.store.sqlite.side_folder.session_marker import Left
from outlast.store.sqlite.statements import sql

MOST_ERRORS = 100
# A row that somebody wrote by hand and that breaks a rule of ours: recovery is there to deal with
# it, and the file is none the worse.
_NO_DAMAGE = ("CHECK constraint failed in ", "NULL value in ")

log = logger("outlast.store")


def check(connection: apsw.Connection, is_quick: bool) -> IntegrityResult:
    """Every row of the check is kept, and one that raises counts as an error."""
    began = time.monotonic()
    errors: list[str] = []
    for statement in ("quick_check" if is_quick else "integrity_check", "foreign_key_check"):
        try:
            rows = connection.execute(sql(statement)).fetchall()
        except apsw.Error as error:
            errors.append(f"{statement}: {error}")
            continue
        errors += [_in_words(statement, row) for row in rows[:MOST_ERRORS] if row != ("ok",)]
    warnings = [error for error in errors if error.startswith(_NO_DAMAGE)]
    damage = [error for error in errors if not error.startswith(_NO_DAMAGE)]
    return IntegrityResult(
        Verdict.FAILED if damage else Verdict.PASSED,
        tuple(damage),
        tuple(warnings),
        duration_seconds=time.monotonic() - began,
        is_quick=is_quick,
    )


def _in_words(statement: str, row: tuple[object, ...]) -> str:
    if statement == "foreign_key_check":
        table, rowid, parent, _ = row
        return f"row {rowid} of {table} refers to a row of {parent} that is not there"
    return str(row[0])


def check_after_bad_stop(
    connection: apsw.Connection, path: Path, settings: Settings, left: Left
) -> IntegrityResult:
    """After a bad stop the file is checked; what is found wrong stops us before we touch it."""
    if not settings.integrity_check_on_startup:
        return IntegrityResult(Verdict.SKIPPED, reason="it is switched off")
    if left.stop is not PreviousStop.UNCLEAN:
        return IntegrityResult(Verdict.SKIPPED, reason="the last stop was clean")
    result = check(connection, is_quick=True)
    if not result.passed:
        found = "; ".join(result.errors[:3])
        log.error("%s failed its check: %s", path, "; ".join(result.errors))
        raise RecoveryFailed(
            f"{path} is damaged ({found}); nothing in it was changed. Keep a copy of it and of its"
            " -wal file, and restore a backup"
        )
    if result.warnings:
        log.warning("%s holds rows that break its rules: %s", path, "; ".join(result.warnings[:3]))
    return result


class Prepared(NamedTuple):
    """What was found and done before the store was served; nothing if it was in use."""

    is_sole: bool = False
    is_new: bool = False
    wal_bytes: int | None = None
    frames_moved: int | None = None
    integrity: IntegrityResult = IntegrityResult(Verdict.SKIPPED, reason="the store is in use")
    migrated: tuple[str, ...] = ()
    flush_was_busy: bool = False
    left: Left | None = None
