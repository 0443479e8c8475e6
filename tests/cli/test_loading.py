"""APP: every way to name a program, and a clear sentence for every way that leads nowhere."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from outlast import Outlast
from outlast.cli.loading import load

PROGRAM = 'from outlast import Outlast\n\n{name} = Outlast("{name}.db")\n'
ASYNC = """
from outlast import AsyncOutlast

work = AsyncOutlast("work.db")

@work.task
async def greet(name: str) -> str:
    return f"hello {name}"
"""


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    """What a test loads is gone after it."""
    path, known = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(place: str, *names: str, more: str = "") -> None:
    file = Path(place)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(PROGRAM.format(name=name) for name in names) + more)


@pytest.mark.parametrize(
    ("file", "names", "target", "store"),
    [
        ("jobs_a.py", ["app", "other"], "jobs_a", "app.db"),
        ("jobs_b.py", ["app", "other"], "jobs_b:other", "other.db"),
        ("jobs_c.py", ["queue"], "jobs_c", "queue.db"),
        ("jobs_d.py", ["queue"], "jobs_d.py", "queue.db"),
        ("jobs_e.py", ["app", "other"], "./jobs_e.py:other", "other.db"),
        ("deep/jobs_f.py", ["app"], "deep/jobs_f.py", "app.db"),
        ("pack_g/jobs.py", ["app"], "pack_g.jobs:app", "app.db"),
        ("queue.py", ["app"], "queue.py", "app.db"),
    ],
)
def test_an_app_is_found(file: str, names: list[str], target: str, store: str) -> None:
    write(file, *names)
    assert load(target).path.name == store


def test_one_object_under_two_names_is_still_the_only_one() -> None:
    write("jobs_h.py", "queue", more="work = queue\n")
    assert load("jobs_h").path.name == "queue.db"


def test_a_file_may_import_its_neighbours_and_is_known_by_its_own_name() -> None:
    write("deep/helper_i.py", more="VALUE = 3\n")
    write("deep/jobs_i.py", "app", more="import helper_i\nassert __name__ == 'jobs_i'\n")
    load("deep/jobs_i.py")
    assert sys.modules["jobs_i"].__file__ == str(Path("deep/jobs_i.py").resolve())


def test_a_file_does_not_hide_a_module_of_the_same_name() -> None:
    import queue

    write("queue.py", "app")
    load("queue.py")
    assert sys.modules["queue"] is queue
    assert hasattr(queue, "SimpleQueue")


def test_loading_touches_no_store(tmp_path: Path) -> None:
    write("jobs_j.py", "app")
    assert isinstance(load("jobs_j.py"), Outlast)
    assert not list(tmp_path.glob("*.db*"))


@pytest.mark.parametrize("target", ["soon", "soon:work", "soon.py", "soon.py:work"])
def test_a_program_for_coroutines_is_served_too(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "soon.py").write_text(ASYNC, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    app = load(target)
    assert type(app).__mro__[1] is Outlast
    assert list(app.functions) == ["greet"]
    assert app.path == tmp_path / "work.db"


@pytest.mark.parametrize(
    ("file", "text", "target", "words"),
    [
        ("bad_a.py", "", "bad_a", 'no Outlast object; write app = Outlast("work.db")'),
        ("bad_b.py", "app = 3\n", "bad_b:app", "'app' in bad_b is of type int"),
        ("bad_c.py", "", "bad_c:app", "bad_c has no 'app'"),
        ("bad_d.py", "1 / 0\n", "bad_d", "cannot be loaded: ZeroDivisionError"),
        ("bad_e.py", "1 / 0\n", "bad_e.py", "cannot be loaded: ZeroDivisionError"),
        ("bad_f.py", "import nothing_like_it\n", "bad_f", "No module named 'nothing_like_it'"),
        ("bad_g.py", "def broken(:\n", "bad_g.py", "cannot be loaded: SyntaxError"),
        ("x.py", "", "missing_module", "there is no module 'missing_module'"),
        ("x.py", "", "missing_module.below:app", "there is no module 'missing_module.below'"),
        ("x.py", "", "missing.py", "there is no file 'missing.py'"),
        ("x.py", "", "folder/x", "there is no file 'folder/x'"),
        ("x.py", "", ":app", "APP must be module:app"),
        ("x.py", "", "x:not-a-name", "APP must be module:app"),
        ("x.py", "", "not a module", "APP must be module:app"),
        ("notes.txt", "", "./notes.txt", "is not a Python file"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_sentence(
    file: str, text: str, target: str, words: str
) -> None:
    write(file, more=text)
    with pytest.raises(click.UsageError) as raised:
        load(target)
    assert words in raised.value.format_message()
    assert "\n" not in raised.value.format_message()


def test_several_objects_are_named_so_that_one_can_be_chosen() -> None:
    write("many.py", "first", "second")
    with pytest.raises(click.UsageError, match=r"several Outlast objects \(first, second\)"):
        load("many")


def test_a_program_that_ends_itself_while_loading_is_told_as_well() -> None:
    write("quits.py", more="import sys\nsys.exit(3)\n")
    with pytest.raises(click.UsageError, match="cannot be loaded: SystemExit"):
        load("quits.py")
