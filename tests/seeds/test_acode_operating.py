"""acode's criteria on what people ask and do by command, and its pages of troubleshooting.

The store is that of its sample report, right after the crash; commands are other processes.
"""

import json
import logging
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.cli.shell import piped
from tests.seeds.crashing import claims_and_waits, copy_of, crash, moved_to_another_host
from tests.seeds.sample import ORPHANS, outlast, settings
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.recovery_validator import seen

# MON-1, MON-3: the other commands


@pytest.mark.proves("CLI-01", "OBS-17")
def test_mon_1_check_recovery_status(sample_crash: Path, tmp_path: Path) -> None:
    """Before and after; looking alone recovers nothing."""
    database = copy_of(sample_crash, tmp_path)
    before = json.loads(outlast(database, "queue", "recovery-status", "--json"))
    assert (before["mode"], before["action"], before["is_due"]) == ("auto", "retry", True)
    assert before["dead_workers"] == ["worker-001"]
    assert seen(database).stuck == set(ORPHANS)
    with Outlast(database, settings=settings()) as app:
        report = app.last_report()
        assert report is not None
    shown = outlast(database, "queue", "recovery-status")
    assert "Recovery is auto; orphans are treated by retry." in shown
    assert "Nothing is due." in shown
    assert f"Run {report.run_id}: 2 tasks put back, 1 failed" in shown


@pytest.mark.proves("CLI-03")
def test_mon_3_check_worker_heartbeats(database: Path) -> None:
    """The seed deleted the row of a worker it had found dead; ours is shown to who wants all."""
    with Outlast(database) as app:
        app.enqueue_many("work", range(2), id=["a", "b"])
    assert crash(database, "gone", limit=1) == ["a"]
    with Child(claims_and_waits, database, "here", 1) as living:
        assert living.hear() == ["a"], "a start recovers"
        shown = outlast(database, "worker", "list", "--show-heartbeat").splitlines()
        told = json.loads(outlast(database, "worker", "list", "--all", "--json"))
    (row,) = [line for line in shown if line.startswith("here ")]
    assert ("SILENT" in shown[0], str(living.pid) in row) == (True, True)
    assert not [line for line in shown if line.startswith("gone ")]
    states = {one["name"]: (one["state"], one["task_ids"]) for one in told}
    assert states == {"here": ("alive", ["a"]), "gone": ("dead", [])}


# A-15, BP-11: manual override


@pytest.mark.slow
@pytest.mark.proves("CLI-04")
def test_a_15_bp_11_an_administrator_forces_a_recovery_action_by_command(database: Path) -> None:
    """The worker lives and hangs, so that no recovery would touch its tasks; each has its own."""
    forced = {"retry": "pending", "fail": "failed", "pending": "pending"}
    with Outlast(database) as app:
        app.enqueue_many("work", range(3), id=list(forced))
    with Child(claims_and_waits, database, "hangs", 3) as child:
        assert child.hear() == list(forced)
        for action, status in forced.items():
            said = outlast(
                database, "task", "force", action, action, "--by", "ada", "--reason", "it hangs"
            )
            assert said == f"{action} is {status}\n"
        child.say(0)
        assert "LeaseLost" in child.error()
    with closing(Outlast(database)) as app:
        ends = {one: app.history(one)[-1] for one in forced}
        assert [app.get(one).attempt for one in forced] == [1, 1, 0]
        audit = [one for one in app.audit() if one.source == "cli"]
    assert {one.actor for one in ends.values()} == {"operator/ada"}
    assert all("it hangs" in (one.error or "") for one in ends.values())
    assert [(one.actor, one.action, one.subject) for one in audit] == [
        ("operator/ada", f"task.{action}", action) for action in forced
    ]


# FM-3: partial recovery


def test_fm_3_a_partial_recovery_is_said_to_be_degraded(sample_crash: Path, tmp_path: Path) -> None:
    """Whoever could be recovered is served; status and health say that something is left."""
    database = copy_of(sample_crash, tmp_path)
    with closing(Hand(database)) as hand:
        hand.run(
            "CREATE TRIGGER stubborn BEFORE UPDATE OF status ON tasks WHEN old.id = 'def456'"
            " BEGIN SELECT RAISE(ABORT, 'it will not move'); END"
        )
    with Outlast(database, settings=settings()) as app:
        assert app.recovery_status().is_degraded
        assert app.get("abc123").status == "pending"
    done = piped(tmp_path, "health", "--store", database)
    assert done.returncode == 1
    assert re.search(r"^degraded +recovery ", done.stdout, re.MULTILINE)


# TS-3: recovery actions not applied


def test_ts_3_c1_a_policy_without_action_for_the_type_is_told(
    sample_crash: Path, tmp_path: Path
) -> None:
    database = copy_of(sample_crash, tmp_path)
    alone = settings(recovery_action_by_kind={"work": "none"})
    with Outlast(database, settings=alone) as app:
        assert "Left Alone By Policy: 3" in str(app.recovery_report())
        assert all("leaves this kind alone" in one.because for one in app.recovery_plan())
        assert {(one.action, one.to) for one in app.recovery_plan()} == {("none", "running")}


@pytest.mark.proves("OBS-18")
def test_ts_3_s2_verbose_logging_shows_the_reasoning_for_each_task(
    make_app: Callable[..., Outlast], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """One stays with its holder, one is left alone by policy, one goes back."""
    app = make_app(recovery_action_by_kind={"care": "none"})
    app.enqueue("work", id="living")
    app.claim("far", lease="1h")
    moved_to_another_host(app.path, "far")
    app.enqueue("care", id="spared")
    app.enqueue("work", id="late")
    app.claim("w", limit=2, lease="1m")
    clock.advance("1m")
    caplog.set_level(logging.DEBUG, "outlast")
    app.heal()
    said = {one: [line for line in caplog.messages if f"task {one} " in line] for one in (
        "living", "spared", "late",
    )}  # fmt: skip
    assert [len(lines) for lines in said.values()] == [1, 1, 1]
    assert "stays with worker far" in said["living"][0]
    assert "its lease has not run out" in said["living"][0]
    assert "recovery leaves kind care alone" in said["spared"][0]
    assert "is pending (lease_expired_retry)" in said["late"][0]


def test_ts_3_c3_recovery_that_is_disabled_by_a_variable_says_so(
    sample_crash: Path, tmp_path: Path
) -> None:
    """The seed's ACODE_RECOVERY_ENABLED."""
    database = copy_of(sample_crash, tmp_path)
    off = {"OUTLAST_RECOVERY_ENABLED": "false"}
    done = piped(tmp_path, "queue", "recover", "--store", database, **off)
    assert done.returncode == 0
    assert re.search(r"^orphans +recovery is switched off", done.stdout, re.MULTILINE)
    assert "RECOVERY IS SWITCHED OFF" in outlast(database, "queue", "recovery-status", **off)
    with closing(Outlast(database)) as app:
        assert app.counts()["running"] == 3
