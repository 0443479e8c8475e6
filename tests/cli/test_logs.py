"""What the library has to say goes through its logger; the command line shows it on stderr."""

import ast
from pathlib import Path

import pytest

from outlast import Outlast
from tests.cli.shell import piped
from tests.docs.pages import SOURCE
from tests.support.children import Child

LIBRARY = [file for file in sorted(SOURCE.rglob("*.py")) if "cli" not in file.parent.parts]

WRITES = {
    "print",
    "warnings.warn",
    "traceback.print_exc",
    "sys.stdout.write",
    "sys.stderr.write",
    "sys.__stderr__.write",
}


def _claims_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("index", id="t1")
    app.claim("w1")
    say()
    hear()


@pytest.fixture
def orphaned(database: Path) -> Path:
    """A store with a task whose worker was killed."""
    with Child(_claims_and_waits, database) as child:
        child.hear()
        child.kill()
    return database


def _looks_and_recovers(path: str) -> None:
    import logging

    from outlast import Outlast
    from tests.support.childside import say

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say([record.levelname, record.getMessage()])

    logging.getLogger("outlast").addHandler(Kept())
    app = Outlast(path)
    app.counts()
    app.open()
    app.close()


@pytest.mark.proves("OBS-20")
def test_warnings_reach_the_programs_own_handler_and_stderr_stays_empty(orphaned: Path) -> None:
    with Child(_looks_and_recovers, orphaned) as child:
        said = child.hear_all()
        assert child.error() == ""
    warnings = [message for level, message in said if level == "WARNING"]
    assert any("recovery is due" in message for message in warnings)
    assert any("is dead: its lock is free; 1 tasks put back" in message for message in warnings)


@pytest.mark.slow
@pytest.mark.proves("OBS-20")
def test_no_module_of_the_library_writes_to_the_terminal() -> None:
    assert len(LIBRARY) > 50
    assert {file.name: found for file in LIBRARY if (found := _calls(file) & WRITES)} == {}


def _calls(file: Path) -> set[str]:
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}


def test_a_look_says_on_stderr_that_recovery_is_due_and_recovers_nothing(orphaned: Path) -> None:
    done = piped(orphaned.parent, "task", "list", "--json", "--store", orphaned)
    assert done.returncode == 0
    assert '"status": "running"' in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("outlast: warning: ")
    assert "recovery is due" in line
    assert Outlast(orphaned).get("t1").status == "running"


def test_a_change_recovers_first_and_tells_whom_it_buried(orphaned: Path) -> None:
    done = piped(orphaned.parent, "queue", "pause", "slow", "--store", orphaned)
    assert done.returncode == 0
    assert "worker w1" in done.stderr
    assert "1 tasks put back" in done.stderr
    with Outlast(orphaned) as app:
        assert (app.get("t1").status, app.get("t1").recovery_count) == ("pending", 1)


def _speaks(is_verbose: bool) -> None:
    import logging

    from outlast.cli.logs import turn_on

    turn_on(is_verbose=is_verbose)
    log = logging.getLogger("outlast.heal")
    log.debug("why %s", "\x1b[31mred")
    log.warning("mind %s", "the\ngap")


def test_verbose_shows_every_line_with_its_source_and_lets_none_act() -> None:
    with Child(_speaks, True) as child:
        said = child.error().splitlines()
    assert len(said) == 2
    assert said[0].endswith(" debug outlast.heal: why \\x1b[31mred")
    assert said[1].endswith(" warning outlast.heal: mind the\\ngap")


def test_without_verbose_only_warnings_are_shown() -> None:
    with Child(_speaks, False) as child:
        assert child.error() == "outlast: warning: mind the\\ngap\n"


def _speaks_with_handlers_of_its_own() -> None:
    import logging
    import sys

    from outlast.cli.logs import turn_on

    turn_on(is_verbose=False)
    logging.basicConfig(stream=sys.stderr, format="own: %(message)s")
    logging.getLogger("outlast").warning("once")


def test_a_program_that_set_up_logging_itself_is_not_told_twice() -> None:
    with Child(_speaks_with_handlers_of_its_own) as child:
        assert child.error() == "own: once\n"
