"""Decision records, the change log and the build order are there, and say something."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import outlast
from outlast import Settings
from tests.docs.pages import DOCS, RECORDS, ROOT, name_of, section, spans

RECORD_FILES = sorted(path for path in RECORDS.glob("*.md") if path.name != "README.md")
PHASES = ["Integrity", "Recovery", "Heartbeat", "Integration", "Tests"]


def missing_from(page: Path) -> Iterator[str]:
    number = int(page.name[:4])
    if not page.read_text(encoding="utf-8").startswith(f"# {number}. "):
        yield f"{name_of(page)}: its number"
    for title in ("Context", "Decision", "Measured", "Consequences"):
        try:
            section(page, title)
        except AssertionError as error:
            yield f"{name_of(page)}: {error}"


def test_a_record_tells_context_decision_measurement_and_consequences() -> None:
    assert RECORD_FILES
    assert [missing for page in RECORD_FILES for missing in missing_from(page)] == []


def test_records_are_numbered_and_all_are_in_the_index_which_names_those_that_were_replaced() -> (
    None
):
    index = (RECORDS / "README.md").read_text(encoding="utf-8")
    numbers = {int(page.name[:4]) for page in RECORD_FILES}
    replaced = {
        int(number)
        for said in re.findall(r"replaces ([\d, and]+)", index)
        for number in re.findall(r"\d+", said)
    }
    assert numbers | replaced == set(range(1, max(numbers) + 1))
    assert not numbers & replaced
    linked = re.findall(r"^\| \[(\d{4})\]\((\d{4}-[\w-]+\.md)\) \| \S", index, re.MULTILINE)
    assert linked == [(page.name[:4], page.name) for page in RECORD_FILES]


@pytest.mark.proves("DOC-12")
def test_the_recovery_design_has_its_decision_record() -> None:
    (page,) = RECORDS.glob("0002-*.md")
    assert "ADR-008" in page.read_text(encoding="utf-8")
    decision = section(page, "Decision")
    for word in ("lease", "token", "incarnation", "LeaseLost", "flock", "heal()"):
        assert word in decision
    assert section(page, "Context")
    assert section(page, "Consequences")
    assert page.name in (RECORDS / "README.md").read_text(encoding="utf-8")


@pytest.mark.proves("DOC-13")
def test_the_change_log_tells_what_this_version_brings() -> None:
    """What is not released stands under Unreleased; a release has its number and its day."""
    page = ROOT / "CHANGELOG.md"
    titles = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert titles[0] == "[Unreleased]"
    for title in titles[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", title)
    released = [title for title in titles if title.startswith(f"[{outlast.__version__}]")]
    text = section(page, released[0] if released else "[Unreleased]")
    assert re.search(r"^### (Added|Changed|Deprecated|Removed|Fixed|Security)$", text, re.MULTILINE)
    assert re.search(r"^- \w+", text, re.MULTILINE)


@pytest.mark.proves("DOC-14")
def test_the_build_order_has_its_five_phases_and_the_way_back() -> None:
    page = DOCS / "build-order.md"
    plan = section(page, "Five phases, seven milestones")
    assert re.findall(r"^\d\. \*\*(\w+)\*\*", plan, re.MULTILINE) == PHASES
    milestones = re.findall(r"^\| \*\*(\d)\. [\w ]+\*\*", plan, re.MULTILINE)
    assert milestones == list("1234567")
    back = section(page, "The way back")
    switches = {name for word in spans(back) for name in re.findall(r"Settings\((\w+)=", word)}
    assert {"heal_at_claim", "migrate"} <= switches
    assert switches <= {field.name for field in dataclasses.fields(Settings)}
    assert "`SchemaNewer`" in back


def test_a_section_that_is_missing_or_empty_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## Empty\n\n- \n\n## Full\n\n" + "word " * 20, encoding="utf-8")
    assert section(page, "Full").split() == ["word"] * 20
    with pytest.raises(AssertionError, match="says nothing"):
        section(page, "Empty")
    with pytest.raises(AssertionError, match="no section"):
        section(page, "Missing")
