"""docs/requirements.md says of every row whether a test proves it, and says it truly."""

from collections import Counter
from pathlib import Path

import pytest

from tests.docs.requirements_table import (
    STATES,
    TABLE,
    TESTS,
    Marker,
    Row,
    due_states,
    find_markers,
    parse_rows,
    with_states,
)

TO_CORRECT = "to correct the State column: ./run python tests/docs/requirements_table.py --write"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return parse_rows(TABLE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def markers() -> list[Marker]:
    return find_markers(*TESTS)


def test_the_table_has_rows_and_names_each_once(rows: list[Row]) -> None:
    assert rows
    repeated = [row_id for row_id, count in Counter(row.id for row in rows).items() if count > 1]
    assert not repeated


def test_every_row_is_proven_or_listed_as_open(rows: list[Row]) -> None:
    assert not [row for row in rows if row.state not in STATES], TO_CORRECT


def test_every_row_that_says_proven_has_a_test(rows: list[Row], markers: list[Marker]) -> None:
    marked = {marker.id for marker in markers}
    assert not [row.id for row in rows if row.state == "proven" and row.id not in marked], (
        TO_CORRECT
    )


def test_no_row_that_has_a_test_says_open(rows: list[Row], markers: list[Marker]) -> None:
    marked = {marker.id for marker in markers}
    assert not [row.id for row in rows if row.state == "open" and row.id in marked], TO_CORRECT


def test_every_marker_names_a_row(rows: list[Row], markers: list[Marker]) -> None:
    known = {row.id for row in rows}
    assert not [marker for marker in markers if marker.id not in known]


SAMPLE = """\
Some prose | with a bar.

| Id | Requirement | Default / number | Check | State |
|---|---|---|---|---|
| QUE-01 | Either `a` \\| `b`. | - | Look. | open |
| QUE-02 | † Never. | 3 |  | proven |
| QUE-03 | Forgotten. | - | - |  |
"""


def test_the_state_is_the_last_cell_of_a_row() -> None:
    assert parse_rows(SAMPLE) == [
        Row("QUE-01", "open"),
        Row("QUE-02", "proven"),
        Row("QUE-03", ""),
    ]


def test_writing_changes_the_states_and_nothing_else() -> None:
    due = due_states(parse_rows(SAMPLE), [Marker("QUE-01", "test_x.py:1")])
    written = with_states(SAMPLE, due)
    assert parse_rows(written) == [
        Row("QUE-01", "proven"),
        Row("QUE-02", "open"),
        Row("QUE-03", "open"),
    ]
    before, after = SAMPLE.splitlines(), written.splitlines()
    assert [line.rpartition("- |")[0] for line in after] == [
        line.rpartition("- |")[0] for line in before
    ]
    assert with_states(written, due) == written


def test_markers_are_found_on_functions_classes_modules_and_parameters(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "test_it.py").write_text(
        "pytestmark = pytest.mark.proves('a-1')\n"
        "@proves('a-2', 'a-3')\n"
        "def test(): '''not one: proves(\"a-9\")'''\n"
        "cases = [pytest.param(1, marks=pytest.mark.proves('a-4'))]\n"
    )
    found = find_markers(tmp_path)
    assert sorted(marker.id for marker in found) == ["a-1", "a-2", "a-3", "a-4"]
    assert found[0].place == f"{tmp_path.name}/deep/test_it.py:1"


def test_a_marker_with_a_computed_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("proves(f'A-{1}')\n")
    with pytest.raises(ValueError, match=r"test_it\.py:1: .*literal"):
        find_markers(tmp_path)
