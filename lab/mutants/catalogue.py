"""The catalogue of mutants: deliberate defects as text edits, read, checked, and applied to a copy.

Each file `NAME.toml` beside this module is one of them. An edit's text must be found exactly once
in its file, so that a mutant whose place has moved is noticed and not silently left out.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent
TESTS = "tests"


class CatalogueError(Exception):
    """A mutant is not what the catalogue says: its file or one of its edits must be mended."""


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of text; `file` is given from the package's own folder."""

    file: str
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


def mutate(package: Path, mutant: Mutant) -> None:
    """Apply a mutant's edits, in their order, to a copy of the package."""
    for edit in mutant.edits:
        path = package / edit.file
        if not path.is_file():
            raise CatalogueError(f"{mutant.name} changes {edit.file}, which is not there any more")
        text = path.read_text(encoding="utf-8")
        count = text.count(edit.find)
        if count != 1:
            raise CatalogueError(
                f"{mutant.name} looks for a text in {edit.file} that is there {count} times"
                " and not once; bring its edit up to the source"
            )
        path.write_text(text.replace(edit.find, edit.replace), encoding="utf-8")
