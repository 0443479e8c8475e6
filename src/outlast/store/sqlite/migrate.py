"""Numbered, checksummed migrations: each one transaction, applied once, never edited afterwards."""

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from outlast.clock import Instant
from outlast.errors import SchemaError, SchemaNewer
from outlast.probes import probe
from outlast.store.sqlite.connect import APPLICATION_ID
from outlast.store.sqlite.statements import sql

FOLDER = Path(__file__).parents[1] / "schema" / "sqlite"


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """What the step's text must still be when it is met again."""
        return "sha256:" + hashlib.sha256(self.text.encode()).hexdigest()


@cache
def all_migrations() -> tuple[Migration, ...]:
    """Every migration this library ships, in order; each is a file, or a folder of files."""
    found = []
    for entry in FOLDER.iterdir():
        number, _, name = entry.stem.partition("_")
        files = sorted(entry.glob("*.sql")) if entry.is_dir() else [entry]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        found.append(Migration(int(number), name, text))
    return tuple(sorted(found))


@cache
def our_names() -> frozenset[str]:
    """The tables, views, indexes and triggers that belong to Outlast."""
    made = re.compile(r"^CREATE (?:UNIQUE )?(?:TABLE|VIEW|INDEX|TRIGGER) (\w+)", re.MULTILINE)
    return frozenset(
        name for migration in all_migrations() for name in made.findall(migration.text)
    )


def applied(connection: apsw.Connection) -> dict[int, str]:
    """The checksums of the migrations a file has been through."""
    if connection.execute(sql("has_migrations")).get == 0:
        return {}
    rows: list[Any] = connection.execute(sql("applied_migrations")).fetchall()
    return dict(rows)


def pending(
    connection: apsw.Connection, known: Sequence[Migration] | None = None
) -> list[Migration]:
    """The migrations a file still lacks; refuses files from the future and of other builds."""
    known = all_migrations() if known is None else known
    done = applied(connection)
    newest = known[-1].number
    for migration in known:
        if done.get(migration.number, migration.checksum) != migration.checksum:
            raise _of_another_build(f"its migration {migration.number} differs")
    if done and max(done) > newest:
        raise SchemaNewer(
            f"the store's schema is version {max(done)} and this Outlast knows {newest};"
            " upgrade Outlast to open it"
        )
    lacking = [migration for migration in known if migration.number not in done]
    if done and lacking and lacking[0].number < max(done):
        raise _of_another_build(f"it lacks migration {lacking[0].number} and has later ones")
    if not done and connection.execute(sql("count_objects")).get != 0:
        raise _of_another_build("it has tables and no record of migrations")
    return lacking


def _of_another_build(why: str) -> SchemaError:
    """A history that is not the beginning of ours: no migration of ours fits on top of it."""
    return SchemaError(
        f"the store was made by another build of Outlast, perhaps an unreleased one ({why});"
        " open it with that build, or choose another path for a new store"
    )


def apply(connection: apsw.Connection, migration: Migration, now: Instant) -> None:
    """Bring a file one version further, whole or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in split_statements(migration.text):
            connection.execute(statement)
            probe("migrate.statement")
        connection.execute(
            sql("record_migration"),
            {
                "number": migration.number,
                "name": migration.name,
                "checksum": migration.checksum,
                "now": now.utc_ms,
            },
        )
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", migration.number)
        probe("migrate.written")
        connection.execute("COMMIT")
        probe("migrate.committed")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def split_statements(text: str) -> list[str]:
    """The statements of a script, found by the engine's own notion of completeness."""
    statements, current = [], ""
    for line in text.splitlines(keepends=True):
        current += line
        if line.rstrip().endswith(";") and apsw.complete(current):
            statements.append(current)
            current = ""
    return statements
