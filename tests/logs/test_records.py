"""What a record of the library carries, and what no record may do: act, leak, or be printed."""

import ast
import json
import logging
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from outlast import Context, Outlast, Settings
from outlast.logs import FIELDS, IDS_LISTED, JsonFormatter, about, logger
from outlast.testing import ManualClock
from tests.docs.pages import DOCS, SOURCE, section, spans, table
from tests.logs.conftest import Kept
from tests.support.children import Child

SECRET = "hunter2-of-the-payload"
HOSTILE = "x\n2027-01-15 08:00:00 ERROR root: forged\r\x1b[2J\x1b]0;owned\x07\u202e\u2028end"


def _leaves_orphans(path: str, count: int) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue_many("index", [None] * count, id=[f"t{n}" for n in range(count)])
    app.claim("doomed", limit=count)
    say()
    hear()


@pytest.fixture
def crashed(database: Path) -> Callable[[int], Path]:
    """A store whose only user was killed with so many tasks in hand."""

    def crash(count: int) -> Path:
        with Child(_leaves_orphans, database, count) as child:
            child.hear()
            child.kill()
        return database

    return crash


@pytest.mark.proves("OBS-11")
def test_a_recovery_is_logged_with_log_size_ids_totals_and_duration(
    crashed: Callable[[int], Path], log: Kept
) -> None:
    with Outlast(crashed(3)) as app:
        report = app.last_report()
        assert report is not None
    (record,) = [one for one in log.records if hasattr(one, "duration_seconds")]
    assert record.levelname == "WARNING"
    found = {name: vars(record)[name] for name in FIELDS if name in vars(record)}
    assert found == {
        "run_id": report.run_id,
        "task_ids": ["t0", "t1", "t2"],
        "tasks_put_back": 3,
        "tasks_failed": 0,
        "dead_workers": ["doomed"],
        "wal_bytes": report.wal_bytes,
        "duration_seconds": report.duration_seconds,
        "store": str(app.path),
    }
    assert report.wal_bytes


@pytest.mark.proves("OBS-11")
def test_the_ids_in_a_record_are_bounded_however_many_were_taken_back(
    crashed: Callable[[int], Path], log: Kept
) -> None:
    with Outlast(crashed(IDS_LISTED + 50)):
        pass
    listed = [vars(one)["task_ids"] for one in log.records if hasattr(one, "task_ids")]
    assert listed
    assert {len(ids) for ids in listed} == {IDS_LISTED}
    (record,) = [one for one in log.records if hasattr(one, "duration_seconds")]
    assert vars(record)["tasks_put_back"] == IDS_LISTED + 50


@pytest.mark.proves("OBS-18")
def test_an_orphan_that_policy_leaves_alone_has_its_line_too(
    make_app: Callable[..., Outlast], clock: ManualClock, log: Kept
) -> None:
    app = make_app(recovery_action_by_kind={"precious": "none"})
    app.enqueue("precious", id="t1")
    app.enqueue("index", id="t2")
    app.claim("w1", limit=2, lease="1m")
    clock.advance("2m")
    app.heal()
    (spared,) = [one for one in log.records if getattr(one, "reason", "") == "skipped"]
    assert (spared.levelname, vars(spared)["task_id"]) == ("DEBUG", "t1")
    assert "recovery leaves kind precious alone" in spared.getMessage()
    (moved,) = [one for one in log.records if getattr(one, "reason", "") == "lease_expired_retry"]
    assert vars(moved)["task_id"] == "t2"


def test_what_a_workers_store_process_says_arrives_with_what_it_is_about(
    database: Path, log: Kept
) -> None:
    """The store process is a process of its own, and its lines come over a wire."""
    app = Outlast(database, settings=Settings(retry_backoff_seconds=0.01))

    @app.task(max_retries=1)
    def flaky() -> None:
        raise ValueError(SECRET)

    with app:
        task = flaky.using(id="t1").enqueue()
        app.worker(name="w1").run(until_empty=True)
        assert app.get(task.id).status == "failed"
    (claim,), (again,) = log.starting("CLAIM"), log.starting("RE-CLAIM")
    for record, attempt in ((claim, 1), (again, 2)):
        data = vars(record)
        assert (data["task_id"], data["kind"], data["queue"]) == ("t1", "flaky", "default")
        assert (data["worker"], data["attempt"]) == ("w1", attempt)
    failures = [one for one in log.records if " failed in attempt " in one.getMessage()]
    assert [vars(one)["attempt"] for one in failures] == [1, 2]
    assert {vars(one)["reason"] for one in failures} == {"ValueError"}
    assert {vars(one)["worker"] for one in failures} == {"w1"}


def test_a_task_that_was_taken_from_its_worker_is_not_said_to_have_failed(
    database: Path, log: Kept
) -> None:
    app = Outlast(database)

    @app.task
    def hangs(ctx: Context) -> None:
        app.force("t1", "fail", by="ada")
        ctx.checkpoint("iteration_end", {})

    with app:
        hangs.using(id="t1").enqueue()
        app.worker(name="w1").run(until_empty=True)
    assert not [one for one in log.records if " failed in attempt " in one.getMessage()]
    (stopped,) = [one for one in log.records if " stopped in attempt 1: " in one.getMessage()]
    assert (vars(stopped)["reason"], vars(stopped)["worker"]) == ("LeaseLost", "w1")


def test_no_record_holds_a_payload_a_result_or_the_message_of_a_handlers_error(
    make_app: Callable[..., Outlast], clock: ManualClock, log: Kept
) -> None:
    """Through a whole life: claimed, failed, lost, taken back, completed; every level heard."""
    app = make_app()
    app.enqueue("index", {"password": SECRET}, id="t1", idempotency_key="k")
    (lease,) = app.claim("w1")
    lease.checkpoint("iteration_end", {"seen": SECRET}, metadata={"key": SECRET})
    lease.fail(ValueError(SECRET))
    clock.advance("1h")
    app.claim("w1", lease="1m")
    clock.advance("2m")
    (lease,) = app.claim("w2")
    lease.complete({"answer": SECRET})
    app.close()
    assert len(log.records) > 4
    formatter = JsonFormatter()
    for record in log.records:
        assert SECRET not in formatter.format(record)
        assert SECRET not in repr(vars(record))


def test_hostile_text_cannot_act_or_forge_a_line_in_any_format(log: Kept) -> None:
    plain = logging.Formatter("%(asctime)s %(levelname)s %(task_id)s %(task_ids)s: %(message)s")
    error = ValueError(HOSTILE)
    fields = about(task_id=HOSTILE, task_ids=[HOSTILE], reason=None)
    logger("outlast.heal").warning("task %s: %s", HOSTILE, error, extra=fields)
    (record,) = log.records
    assert not hasattr(record, "reason")
    for line in (plain.format(record), JsonFormatter().format(record)):
        assert line.isprintable()
        assert "forged" in line
    data = json.loads(JsonFormatter().format(record))
    assert data["task_id"] == HOSTILE.encode("unicode_escape").decode()


def test_hostile_names_that_others_put_into_the_store_cannot_act(
    app: Outlast, clock: ManualClock, log: Kept
) -> None:
    """The library refuses such names; a foreign tool need not."""
    app.enqueue("index", id="t1")
    app.claim("w1", lease="1m")
    connection = apsw.Connection(str(app.path))
    connection.execute("UPDATE tasks SET worker_id = ?", (HOSTILE,))
    connection.close()
    clock.advance("2m")
    app.heal()
    lines = [one.getMessage() for one in log.records]
    assert any("forged" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_a_json_line_says_when_how_grave_who_and_about_what(log: Kept) -> None:
    logger("outlast.claim").info("CLAIM %s", "t1", extra=about(task_id="t1", attempt=2))
    (record,) = log.records
    record.created, record.process = 1_800_000_000.123, 4711
    record.password = "not ours, and not asked for"
    line = JsonFormatter().format(record)
    assert line == (
        '{"at": "2027-01-15T08:00:00.123Z", "level": "info", "logger": "outlast.claim",'
        ' "message": "CLAIM t1", "pid": 4711, "task_id": "t1", "attempt": 2}'
    )


def test_a_traceback_stays_on_its_line(log: Kept) -> None:
    try:
        raise ValueError("first\nsecond\x1b[31m")
    except ValueError:
        logger("outlast.store").exception("a job in the background failed")
    (record,) = log.records
    line = JsonFormatter().format(record)
    assert line.isprintable()
    assert "ValueError: first\nsecond" in json.loads(line)["traceback"]


def test_a_record_names_the_line_that_said_it(log: Kept) -> None:
    logger("outlast.store").info("here")
    (record,) = log.records
    assert (record.filename, record.funcName) == (
        Path(__file__).name,
        "test_a_record_names_the_line_that_said_it",
    )


def _says_nothing(path: str) -> None:
    """A program that never heard of logging."""
    from outlast import Outlast

    app = Outlast(path)
    app.counts()
    with app:
        app.claim("w1")


@pytest.mark.proves("OBS-20")
def test_a_program_that_set_up_no_logging_sees_nothing(crashed: Callable[[int], Path]) -> None:
    """There is much to warn of: recovery that is due, a dead worker, its tasks."""
    with Child(_says_nothing, crashed(2)) as child:
        assert child.hear_all() == []
        assert child.error() == ""


def _calls(file: Path) -> list[ast.Call]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def test_every_line_is_logged_by_a_logger_that_escapes() -> None:
    """Whoever goes around it lets a stranger's text into the log as it is.

    The command line sets up handlers, and silences a glance at the program's settings; the records
    of the store process come from such loggers already.
    """
    command_line = {SOURCE / "cli" / "logs.py", SOURCE / "cli" / "open_store.py"}
    allowed = {SOURCE / "logs.py", SOURCE / "app" / "store_process_main.py"} | command_line
    files = [file for file in sorted(SOURCE.rglob("*.py")) if file not in allowed]
    around = {
        file.name
        for file in files
        if SOURCE / "lab" not in file.parents
        for call in _calls(file)
        if ast.unparse(call.func).endswith("getLogger")
    }
    assert around == set()


def test_the_attributes_in_the_code_are_those_on_the_page() -> None:
    used = {
        keyword.arg
        for file in SOURCE.rglob("*.py")
        for call in _calls(file)
        if ast.unparse(call.func) == "about"
        for keyword in call.keywords
    }
    assert used <= set(FIELDS)
    assert not set(FIELDS) & set(vars(logging.makeLogRecord({})))
    rows = table(section(DOCS / "logs.md", "What a line is about"))[1:]
    assert [name for row in rows for name in spans(row[0])] == list(FIELDS)


def test_the_words_on_the_page_are_those_in_the_code() -> None:
    said = section(DOCS / "logs.md", "The three words")
    words = {spans(row[0])[0] for row in table(said)[1:]}
    assert words == {"CLAIM", "RE-CLAIM", "ORPHAN_FAILED"}
