"""The catalogue of mutants: deliberate defects as text edits, read, checked, and applied to a copy.

Each file `NAME.toml` beside this module is one of them. An edit names a place, wherever that lies,
and its text must be found exactly once in it, so that a mutant whose code was changed is noticed
and not silently left out.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from lab.mutants.places import PlaceError, Source, read_source, replaced

FOLDER = Path(__file__).parent
TESTS = "tests"


class CatalogueError(Exception):
    """A mutant is not what the catalogue says: its file or one of its edits must be mended."""


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of text, in a place by its name."""

    place: str
    find: str
    replace: str


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One defect, the experiment or the tests that must find it, and how long that may take.

    `blind` says that its author had not read the experiments. `arguments` are handed to the
    experiment, and lead it to the defect quickly; where `found_by` is "tests", they name these.
    """

    name: str
    defect: str
    found_by: str
    arguments: tuple[str, ...]
    seconds: float
    blind: bool
    edits: tuple[Edit, ...]


def mutants_in(folder: Path = FOLDER, names: Iterable[str] = ()) -> list[Mutant]:
    """The mutants of a catalogue by name, all of them or those that are named."""
    wanted = list(dict.fromkeys(names))
    found = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    for name in wanted:
        if name not in found:
            raise CatalogueError(
                f"there is no mutant {name!r}; choose among {', '.join(found) or 'none'}"
            )
    return [read_mutant(found[name]) for name in wanted or found]


def read_mutant(path: Path) -> Mutant:
    """One mutant from its file, whose name it bears."""
    try:
        mutant = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Mutant)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise CatalogueError(f"{path.name} cannot be read as a mutant: {error}") from error
    if mutant.name != path.stem:
        raise CatalogueError(f"{path.name} names itself {mutant.name!r}; give both one name")
    if not mutant.edits:
        raise CatalogueError(f"{path.name} changes nothing; give it at least one edit")
    if mutant.found_by == TESTS and not mutant.arguments:
        raise CatalogueError(f"{path.name} is found by tests; name them in its arguments")
    return mutant


def changes(source: Source, mutant: Mutant) -> dict[Path, str]:
    """The new texts of the files that a mutant's edits change, one after the other."""
    changed: dict[Path, str] = {}
    for edit in mutant.edits:
        try:
            path, text = replaced({**source, **changed}, edit.place, edit.find, edit.replace)
        except PlaceError as error:
            raise CatalogueError(f"{mutant.name}: {error}; bring its edit up to it") from error
        changed[path] = text
    return changed


def mutate(package: Path, mutant: Mutant) -> None:
    """Apply a mutant's edits, in their order, to a copy of the package."""
    for path, text in changes(read_source(package), mutant).items():
        (package / path).write_text(text, encoding="utf-8")
