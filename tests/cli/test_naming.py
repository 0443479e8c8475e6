"""A task may be named by the beginning of its id, if no other task's id begins so."""

import pytest

from outlast import Outlast
from outlast.cli.exits import Exit
from tests.cli.conftest import Call

IDS = ("report-2027-01", "report-2027-02", "report", "mail-1", "ünïcode-1", "ab", "abc%_1")


@pytest.fixture
def named(app: Outlast) -> Outlast:
    for task_id in IDS:
        app.enqueue("index", id=task_id)
    return app


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("mail", "mail-1"),
        ("mail-1", "mail-1"),
        ("report-2027-01", "report-2027-01"),
        ("report", "report"),
        ("ünïc", "ünïcode-1"),
        ("abc%", "abc%_1"),
        ("ab", "ab"),
    ],
)
def test_a_beginning_that_is_no_other_tasks_names_the_task(
    outlast: Call, named: Outlast, given: str, meant: str
) -> None:
    assert outlast("task", "show", given, "--json").data["id"] == meant
    assert outlast("task", "why", given, "--json").data["id"] == meant
    assert outlast("checkpoint", "list", given, "--json").data == []
    (event,) = outlast("queue", "events", "--task", given, "--json").data
    assert event["task_id"] == meant


@pytest.mark.parametrize("verb", ["show", "why", "retry", "cancel"])
def test_a_beginning_of_several_ids_changes_nothing_and_names_them(
    outlast: Call, named: Outlast, verb: str
) -> None:
    said = outlast("task", verb, "mail-1", "repo") if verb in ("retry", "cancel") else outlast(
        "task", verb, "repo"
    )  # fmt: skip
    assert (said.code, said.out, said.err.count("\n")) == (Exit.USAGE, "", 1)
    assert "report, report-2027-01, report-2027-02; give more of it" in said.err
    assert named.counts()["pending"] == len(IDS)


def test_a_beginning_too_short_to_be_meant_names_nothing(outlast: Call, named: Outlast) -> None:
    for verb in ("show", "cancel"):
        assert outlast("task", verb, "mai").code == Exit.NO_TASK
    assert named.get("mail-1").status == "pending"


def test_tasks_are_cancelled_and_retried_by_the_beginning_of_their_ids(
    outlast: Call, named: Outlast
) -> None:
    assert outlast("task", "cancel", "mail", "report-2027-02").code == Exit.FINE
    assert {one.id for one in named.tasks("cancelled")} == {"mail-1", "report-2027-02"}
    retried = outlast("task", "retry", "mail", "--json").data["retried"]
    assert [one["id"] for one in retried] == ["mail-1"]


def test_ids_are_found_in_python_too(named: Outlast) -> None:
    assert named.ids("report-") == ["report-2027-01", "report-2027-02"]
    assert named.ids("report", limit=2) == ["report", "report-2027-01"]
    assert named.ids("nobody") == []
