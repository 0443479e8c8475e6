"""Where an edit of the source belongs: found by name, wherever the file lies."""

from pathlib import Path

import pytest

from lab.mutants.places import PlaceError, replaced

MODULE = """\
LIMIT = 3
RATES: dict[str, int] = {"a": 3}


@once
def settle(x):
    return 3


class Writer:
    def settle(self):
        return 4

    def __init__(self):
        self.limit = 3
"""
HERE = Path("store/writer.py")
SOURCE = {
    HERE: MODULE,
    Path("other.py"): "def twin():\n    return 1\n",
    Path("another.py"): "def twin():\n    return 2\n",
    Path("sql/settle.sql"): "SELECT 3\n",
    Path("sql/unsettle.sql"): "SELECT 3\n",
}


@pytest.mark.parametrize(
    ("place", "find", "old", "new"),
    [
        ("LIMIT", "3", "LIMIT = 3", "LIMIT = 9"),
        ("RATES", "3", '"a": 3', '"a": 9'),
        ("settle", "3", "return 3", "return 9"),
        ("settle", "@once\n", "@once\n", "9"),
        ("Writer.settle", "4", "return 4", "return 9"),
        ("Writer.__init__", "3", "limit = 3", "limit = 9"),
        ("Writer", "4\n", "return 4\n", "return 9"),
    ],
)
def test_a_place_is_found_by_its_name_in_any_file(
    place: str, find: str, old: str, new: str
) -> None:
    for path in (HERE, Path("moved/to/there.py")):
        moved = {path: MODULE} | {other: SOURCE[other] for other in SOURCE if other != HERE}
        assert replaced(moved, place, find, "9") == (path, MODULE.replace(old, new))


def test_a_file_of_sql_is_found_by_the_end_of_its_path() -> None:
    changed = (Path("sql/settle.sql"), "SELECT 9\n")
    assert replaced(SOURCE, "settle.sql", "3", "9") == changed
    assert replaced(SOURCE, "sql/settle.sql", "3", "9") == changed


def test_of_places_with_one_name_the_one_that_has_the_text_is_meant() -> None:
    assert replaced(SOURCE, "twin", "return 2", "pass") == (
        Path("another.py"),
        "def twin():\n    pass\n",
    )


@pytest.mark.parametrize(
    ("place", "find", "why"),
    [
        ("nobody", "3", "nobody is not in the source"),
        ("Reader.settle", "4", "not in the source"),
        ("ettle.sql", "3", "not in the source"),
        ("settle", "9", "0 times"),
        ("twin", "return", "2 times"),
        ("Writer", "self", "3 times"),
    ],
)
def test_what_is_not_there_exactly_once_is_refused(place: str, find: str, why: str) -> None:
    with pytest.raises(PlaceError, match=why):
        replaced(SOURCE, place, find, "")
