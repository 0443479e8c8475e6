"""How the code is built: what may know what, where SQL lives, and what an install brings along."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "outlast"
STORES = SOURCE / "store"
LAB = ROOT / "lab" / "src" / "outlast_lab"
# The laboratory looks inside through this one door.
DOOR = LAB / "inside.py"
# Part of the standard library only from a later Python on, and imported only there.
NEWER_STANDARD_MODULES = {"annotationlib"}
MODULES = sorted(SOURCE.rglob("*.py"))

ALLOWED_DEPENDENCIES = {"apsw", "msgspec", "click", "rich", "cronsim", "uuid-utils"}
# What only one room may import, for those who have installed the extra.
EXTRAS = {"contrib": {"prometheus-client", "opentelemetry"}}
PUBLIC_ALL_THE_SAME = {"_replace", "_asdict", "_make", "_fields", "_exit"}
CHANGES_DATA = (
    r"INSERT\b.*\bINTO\b|REPLACE\s+INTO\b|UPDATE\s+\w+\s+SET\b|DELETE\s+FROM\b|ALTER\s+TABLE\b"
    r"|(CREATE|DROP)\s+(UNIQUE\s+)?(TABLE|INDEX|VIEW|TRIGGER)\b"
)
SQL_CHANGE = re.compile(rf"\s*({CHANGES_DATA})", re.IGNORECASE | re.DOTALL)
SQL_TEXT = re.compile(
    rf"\s*({CHANGES_DATA}|SELECT\b.*\bFROM\b|PRAGMA\s+\w+|BEGIN|COMMIT|ROLLBACK|SAVEPOINT)",
    re.IGNORECASE | re.DOTALL,
)


def _nodes(module: Path) -> Iterator[ast.AST]:
    yield from ast.walk(ast.parse(module.read_text(encoding="utf-8")))


def _private_reaches(tree: ast.AST) -> list[str]:
    """Uses of another object's private attribute, and imports of another module's private name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = node.value
            is_own = ast.unparse(owner) in ("self", "cls", "super()")
            if not is_own and node.attr not in PUBLIC_ALL_THE_SAME:
                found.append(ast.unparse(node))
        if isinstance(node, ast.ImportFrom) and node.module != "outlast":
            found += [alias.name for alias in node.names if _is_private(alias.name)]
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _imports(module: Path) -> set[str]:
    names: set[str] = set()
    for node in _nodes(module):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def _texts(module: Path) -> Iterator[str]:
    for node in _nodes(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.proves("API-07")
def test_no_module_reaches_into_anothers_private_parts() -> None:
    modules = [module for module in [*MODULES, *sorted(LAB.rglob("*.py"))] if module != DOOR]
    assert len(modules) > 300
    assert [
        f"{module.relative_to(ROOT)}: {reach}"
        for module in modules
        for reach in _private_reaches(ast.parse(module.read_text(encoding="utf-8")))
    ] == []


@pytest.mark.proves("API-07")
@pytest.mark.parametrize(
    "reach", ["store._path", "self._store._connection", "f()._x", "from outlast.app.app import _x"]
)
def test_such_a_reach_would_be_found(reach: str) -> None:
    assert len(_private_reaches(ast.parse(reach))) >= 1
    assert _private_reaches(ast.parse("self._mine; cls._mine; new._replace(a=1)")) == []


@pytest.mark.slow
@pytest.mark.proves("API-10")
def test_only_the_store_knows_the_engine_and_speaks_sql() -> None:
    outside = [module for module in MODULES if STORES not in module.parents]
    assert len(outside) > 20
    for module in outside:
        assert not {name for name in _imports(module) if name.split(".")[0] == "apsw"}, module
        assert not [text for text in _texts(module) if SQL_TEXT.match(text)], module


@pytest.mark.proves("API-10")
def test_what_changes_data_stands_in_sql_files_and_each_of_them_is_used() -> None:
    inside = [module for module in MODULES if STORES in module.parents]
    texts = {text for module in inside for text in _texts(module)}
    assert not [text for text in texts if SQL_CHANGE.match(text)]
    operations = {file.stem for file in (STORES / "sql").rglob("*.sql")}
    assert len(operations) > 50
    flushes = {name for name in operations if name.startswith("flush_")}
    assert {name for name in operations - flushes if name not in texts} == set()


def _project(folder: Path = ROOT) -> dict[str, Any]:
    with (folder / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
        return project


def _declared() -> dict[str, str]:
    """Dependencies by name, with what follows the name."""
    found = {}
    for line in _project()["dependencies"]:
        match = re.match(r"^([A-Za-z0-9._-]+)(.*)$", line)
        assert match
        found[match[1]] = match[2]
    return found


@pytest.mark.slow
@pytest.mark.proves("API-09")
def test_the_dependencies_are_few_and_sqlite_comes_from_apsw() -> None:
    declared = _declared()
    assert set(declared) <= ALLOWED_DEPENDENCIES
    assert declared["apsw"] == ">=3.53"
    third_party = {
        (name.split(".")[0].replace("_", "-"), module.relative_to(SOURCE).with_suffix("").parts[0])
        for module in MODULES
        for name in _imports(module)
        if name.split(".")[0] not in {*sys.stdlib_module_names, *NEWER_STANDARD_MODULES, "outlast"}
    }
    assert {name for name, place in third_party if name not in EXTRAS.get(place, ())} <= set(
        declared
    )


@pytest.mark.slow
@pytest.mark.proves("API-09")
def test_neither_the_system_sqlite_nor_pickle_is_ever_imported() -> None:
    used = {name.split(".")[0] for module in MODULES for name in _imports(module)}
    assert not used & {"sqlite3", "_sqlite3", "pickle", "marshal", "shelve", "dbm"}


_BARE = """
import sys, time
sys.path[:0] = sys.argv[1:3]
began = time.process_time()
import outlast
cost = time.process_time() - began
with outlast.Outlast(sys.argv[3]) as app:
    app.enqueue("work", {"a": 1})
    (lease,) = app.claim("w")
    lease.complete()
tops = {name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(cost, *sorted(tops - {"__main__", "__mp_main__"}))
"""


@pytest.mark.proves("API-09")
def test_it_runs_quickly_with_nothing_installed_but_its_dependencies(tmp_path: Path) -> None:
    """Without site-packages, beside links to the declared dependencies and nothing else."""
    done = _run_bare(tmp_path, _BARE, tmp_path / "work.db")
    assert done.returncode == 0, done.stderr
    cost, *loaded = done.stdout.split()
    assert set(loaded) == {"outlast", "apsw", "msgspec", "uuid_utils"} - _unneeded()
    assert float(cost) < 1.0


_COMMAND = """
import sys
sys.path[:0] = sys.argv[1:3]
del sys.argv[1:3]
from outlast.cli.main import main
main()
"""


@pytest.mark.parametrize("words", [[], ["kill", "--seed", "1"], ["--help"]])
def test_without_the_laboratory_its_command_says_in_one_sentence_what_to_install(
    tmp_path: Path, words: list[str]
) -> None:
    done = _run_bare(tmp_path, _COMMAND, "lab", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "outlast: outlast lab is a package of its own: pip install outlast-lab\n"


def test_without_the_laboratory_the_help_and_the_completion_name_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = _run_bare(tmp_path, _COMMAND, "--help")
    assert "  lab  " in done.stdout
    monkeypatch.setenv("_OUTLAST_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "outlast la")
    monkeypatch.setenv("COMP_CWORD", "1")
    done = _run_bare(tmp_path, _COMMAND)
    assert done.stdout.splitlines() == ["plain,lab"]


def test_the_wheel_holds_nothing_of_the_laboratory(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    shipped = {Path(name) for name in zipfile.ZipFile(wheel).namelist()}
    assert {SOURCE.parent / path for path in shipped} >= {*MODULES, *SOURCE.rglob("*.sql")}
    tops = {path.parts[0] for path in shipped}
    assert tops == {"outlast", f"outlast-{_project()['version']}.dist-info"}
    assert not [path for path in shipped if {"lab", "outlast_lab", "mutants"} & set(path.parts)]


def test_the_laboratory_wants_the_outlast_beside_it() -> None:
    version = _project()["version"]
    laboratory = _project(ROOT / "lab")
    assert (laboratory["version"], laboratory["dependencies"]) == (version, [f"outlast=={version}"])


def _run_bare(folder: Path, program: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a program whose first two arguments are the source and a folder of the dependencies."""
    bare = folder / "bare"
    bare.mkdir(exist_ok=True)
    for name in _declared():
        _link_distribution(name, bare)
    given = [str(word) for word in (ROOT / "src", bare, *words)]
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *given],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _unneeded() -> set[str]:
    return {"uuid_utils"} if sys.version_info >= (3, 14) else set()


def _link_distribution(name: str, folder: Path) -> None:
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        assert name.replace("-", "_") in _unneeded()
        return
    tops = {Path(str(file)).parts[0] for file in distribution.files or []}
    for top in tops - {"..", "__pycache__"}:
        if not (folder / top).exists():
            (folder / top).symlink_to(Path(str(distribution.locate_file(top))))
