"""How large files, folders and functions may become before a reader loses his way in them."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, SOURCE

FOLDERS = ("src", "tests", "lab", "bench")
FILE_LINES, FOLDER_FILES, FUNCTION_LINES = 350, 25, 30


def python_files(root: Path) -> list[Path]:
    found = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))]
    assert found
    return found


def long_files(root: Path) -> list[str]:
    counts = {file: len(file.read_text("utf-8").splitlines()) for file in python_files(root)}
    return [
        f"{file.relative_to(root)}: {count} lines"
        for file, count in counts.items()
        if count > FILE_LINES
    ]


def full_folders(root: Path) -> list[str]:
    counts = Counter(file.parent for file in python_files(root))
    return [
        f"{folder.relative_to(root)}: {count} files"
        for folder, count in counts.items()
        if count > FOLDER_FILES
    ]


def long_functions(tree: ast.AST) -> Iterator[str]:
    """Functions whose statements take too many lines; a signature and a docstring may be long."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            has_docstring = ast.get_docstring(node, clean=False) is not None
            statements = node.body[1:] if has_docstring else node.body
            if statements and _lines(statements) > FUNCTION_LINES:
                yield node.name


def _lines(statements: list[ast.stmt]) -> int:
    end = statements[-1].end_lineno
    assert end is not None
    return end - statements[0].lineno + 1


@pytest.mark.proves("API-10")
def test_no_file_is_longer_than_350_lines() -> None:
    assert long_files(ROOT) == []


@pytest.mark.proves("API-10")
def test_no_folder_holds_more_than_25_modules() -> None:
    assert full_folders(ROOT) == []


@pytest.mark.proves("API-10")
def test_no_function_of_the_library_is_longer_than_30_lines() -> None:
    modules = sorted(SOURCE.rglob("*.py"))
    assert len(modules) > 20
    found = [
        f"{module.relative_to(SOURCE)}: {name}"
        for module in modules
        for name in long_functions(ast.parse(module.read_text("utf-8")))
    ]
    assert found == []


def test_what_is_too_large_would_be_found(tmp_path: Path) -> None:
    """Each limit is met exactly once, and exceeded by one once."""
    for number in range(FOLDER_FILES + 1):
        (tmp_path / "src" / "full").mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / "full" / f"m{number}.py").touch()
    for folder, lines in (("lab", FILE_LINES), ("bench", FILE_LINES + 1)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "long.py").write_text("x = 1\n" * lines, encoding="utf-8")
    assert full_folders(tmp_path) == ["src/full: 26 files"]
    assert long_files(tmp_path) == ["bench/long.py: 351 lines"]
    for lines, found in ((FUNCTION_LINES, []), (FUNCTION_LINES + 1, ["f"])):
        text = 'def f():\n    """Says\n\n    much."""\n' + "    x = 1\n" * lines
        assert list(long_functions(ast.parse(text))) == found
