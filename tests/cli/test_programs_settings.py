"""A command goes by the recovery settings of the program whose store it is."""

import json
import signal
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from tests.cli.shell import piped
from tests.support.children import Child


def _claims_all(path: str) -> None:
    from outlast import Outlast, Settings
    from tests.support.childside import hear, say

    by_kind = {"slow": "none"}
    settings = Settings(recovery_mode="manual", recovery_action_by_kind=by_kind)
    app = Outlast(path, settings=settings)
    say([lease.task_id for lease in app.claim("w", limit=9)])
    hear()


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """Left by a program that was told, in its code, to hold one kind and to leave another alone."""
    path = tmp_path / "work.db"
    with Outlast(path) as app:
        app.enqueue("pay", id="p")
        app.enqueue("slow", id="s")
    with Child(_claims_all, path) as program:
        assert program.hear() == ["p", "s"]
        program.signal(signal.SIGKILL)
        program.wait()
    return path


def test_enqueueing_by_hand_puts_back_what_the_program_would_and_no_more(crashed: Path) -> None:
    done = piped(crashed.parent, "enqueue", "other", "--store", crashed)
    assert done.returncode == 0, done.stderr
    app = Outlast(crashed)
    assert (app.get("s").status, app.get("p").status) == ("running", "pending")
    assert app.get("p").parked == "hold"
    assert app.claim("w", kinds=["pay"]) == []
    app.close()


def test_the_plan_is_the_programs(crashed: Path) -> None:
    done = piped(crashed.parent, "queue", "recover", "--plan", "--json", "--store", crashed)
    told = {one["task_id"]: one["action"] for one in json.loads(done.stdout)}
    assert told == {"p": "retry", "s": "none"}


def test_a_command_that_names_settings_of_its_own_goes_by_those(crashed: Path) -> None:
    told = {"OUTLAST_RECOVERY_ACTION": "fail"}
    done = piped(crashed.parent, "queue", "recover", "--store", crashed, **told)
    assert done.returncode == 0, done.stderr
    app = Outlast(crashed)
    assert {app.get(one).status for one in "ps"} == {"failed"}


def test_a_command_leaves_no_settings_behind(crashed: Path) -> None:
    before = Outlast(crashed).recovery_settings()
    told = {"OUTLAST_RECOVERY_ACTION": "pending"}
    assert piped(crashed.parent, "enqueue", "other", "--store", crashed, **told).returncode == 0
    assert Outlast(crashed).recovery_settings() == before


def test_the_settings_that_are_left_are_those_of_who_served_last(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    for mode in ("manual", "auto"):
        with Outlast(path, settings=Settings(recovery_mode=mode)) as app:
            assert json.loads(app.recovery_settings() or "")["recovery_mode"] == mode
