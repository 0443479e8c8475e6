"""The golden files of this folder: the schema and the public names, as they are meant to be.

A change of either shows up in review as a change of these files. To bring them up to date:

    ./run python -m tests.store.golden --write
"""

import inspect
import sys
import tempfile
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

import apsw

import outlast
from outlast import Lease, Outlast, Settings
from outlast.clock import Instant
from outlast.store.sqlite import migrate
from tests.support.newer import SHIPPED

SCHEMA = Path(__file__).with_name("schema.sql")
PUBLIC_API = Path(__file__).with_name("public_api.txt")
TO_UPDATE = "if this is meant: ./run python -m tests.store.golden --write"

_KINDS = ("table", "index", "trigger", "view")


def schema_text(connection: apsw.Connection) -> str:
    """Every definition in a file, tables first, each by name."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    found = sorted((_KINDS.index(str(kind)), str(name), str(sql)) for kind, name, sql in rows)
    return "".join(f"{sql};\n\n" for _, name, sql in found if not name.startswith("sqlite_"))


def apply_migrations(connection: apsw.Connection) -> None:
    """Make a store of a new file by the migrations that ship, and by these alone."""
    connection.pragma("journal_mode", "wal")
    for step in SHIPPED:
        migrate.apply(connection, step, Instant(1_700_000_000_000, 0))


def public_api_text() -> str:
    """The names users may import, the calls on the objects they hold, the fields of the rest."""
    lines = [f"outlast.{name}" for name in sorted(outlast.__all__)]
    lines += [f"Outlast{_shape(Outlast.__init__)}", f"Settings{_shape(Settings.__init__)}"]
    for owner in (Outlast, Lease):
        lines += sorted(
            f"{owner.__name__}.{name}{_shape(getattr(owner, name))}"
            for name in dir(owner)
            if not name.startswith("_")
        )
    for name in sorted(outlast.__all__):
        lines += [f"{name}.{field}" for field in _fields(getattr(outlast, name))]
    return "\n".join(lines) + "\n"


def _fields(value: object) -> list[str]:
    """The fields of a record in their order; of an enumeration its members."""
    if not inspect.isclass(value) or value is Settings:
        return []
    if issubclass(value, Enum):
        return [member.name for member in value]
    if is_dataclass(value):
        return [field.name for field in fields(value)]
    return list(getattr(value, "_fields", ()))


def _shape(member: object) -> str:
    """Names, kinds and defaults; annotations read differently from Python to Python."""
    if not inspect.isfunction(member):
        return ""
    signature = inspect.signature(member)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    empty = inspect.Signature.empty
    return str(signature.replace(parameters=bare, return_annotation=empty))


def main(arguments: list[str]) -> int:
    if arguments != ["--write"]:
        print("usage: python -m tests.store.golden --write", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        connection = apsw.Connection(f"{folder}/new.db")
        apply_migrations(connection)
        SCHEMA.write_text(schema_text(connection), encoding="utf-8")
        connection.close()
    PUBLIC_API.write_text(public_api_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
