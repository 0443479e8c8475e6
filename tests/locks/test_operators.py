"""Freeing a lock on somebody's word: on record, told in the stream, and by the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast import InvalidInput, LockLost, Outlast
from outlast.cli.main import cli
from tests.locks.telling import Told
from tests.support.foreign import foreign_rows

Events = Callable[[], list[Told]]


def audit(database: Path) -> list[tuple[str, ...]]:
    query = "SELECT actor, source, action, status, subject, data FROM audit ORDER BY id"
    return [
        (actor, source, action, status, subject, json.loads(data)["holder"])
        for actor, source, action, status, subject, data in foreign_rows(database, query)
    ]


def test_a_lock_freed_by_an_operator_is_on_record_with_the_name_of_who_did_it(
    app: Outlast, database: Path, events: Events
) -> None:
    lock = app.lock("x", holder="agent")
    lock.acquire()
    assert app.release_lock("x", by="ada") is True
    with pytest.raises(LockLost):
        lock.check()
    assert app.current_lock("x") is None
    assert events() == [("lock.released", "x", "agent")]
    (entry,) = audit(database)
    assert entry == ("operator/ada", "library", "lock.release", "succeeded", "x", "agent")
    assert app.release_lock("x", by="ada") is False
    assert len(audit(database)) == 1
    assert len(events()) == 1


@pytest.mark.parametrize("wrong", [{"name": ""}, {"by": ""}, {"by": "a\nb"}])
def test_who_frees_a_lock_has_to_say_who_it_is(app: Outlast, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        app.release_lock(**{"name": "x", "by": "ada"} | wrong)


def test_the_command_line_lists_locks_and_frees_them(database: Path) -> None:
    app = Outlast(database)
    app.lock("x", holder="agent").acquire()
    runner = CliRunner(env={"OUTLAST_STORE": str(database)})
    listed = json.loads(runner.invoke(cli, ["lock", "list", "--json"]).stdout)
    assert [(one["name"], one["holder"]) for one in listed] == [("x", "agent")]
    done = runner.invoke(cli, ["lock", "release", "x", "--by", "ada"])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "lock x is free\n", "")
    assert audit(database)[0][:2] == ("operator/ada", "cli")
    assert app.locks() == []
    app.lock("y", holder="agent").acquire()
    assert runner.invoke(cli, ["lock", "release", "y"], env={"LOGNAME": "bob"}).exit_code == 0
    assert audit(database)[1][:2] == ("operator/bob", "cli"), "else whoever is logged in"
    app.close()


def test_a_look_at_locks_writes_nothing_and_makes_no_store(database: Path) -> None:
    with Outlast(database) as app:
        app.lock("x", ttl=0.001).acquire()
    looking = Outlast(database)
    before = database.read_bytes(), len(foreign_rows(database, "SELECT * FROM workers"))
    assert looking.locks() == []
    assert looking.current_lock() is None
    assert looking.is_lock_stale() is False
    looking.close()
    assert before == (
        database.read_bytes(),
        len(foreign_rows(database, "SELECT * FROM workers")),
    )
