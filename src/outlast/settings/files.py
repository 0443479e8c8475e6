"""Reads a settings file, TOML or YAML, into a tree; every complaint names the file."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from outlast.errors import InvalidInput

YAML_SUFFIXES = (".yaml", ".yml")


def read_tree(path: Path) -> Mapping[str, Any]:
    """What the file says, as tables within tables."""
    if path.suffix != ".toml" and path.suffix not in YAML_SUFFIXES:
        raise InvalidInput(f"settings file {path} must end in .toml, .yaml or .yml")
    text = _text_of(path)
    tree = _toml(text, path) if path.suffix == ".toml" else _yaml(text, path)
    if not isinstance(tree, Mapping):
        raise InvalidInput(f"settings file {path} must hold keys with values")
    return tree


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"settings file {path} must be text in UTF-8") from error
    except OSError as error:
        why = error.strerror or error
        raise InvalidInput(
            f"settings file {path} cannot be read ({why}); name one that can"
        ) from error


def _toml(text: str, path: Path) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"settings file {path} is not proper TOML: {error}") from error


def _yaml(text: str, path: Path) -> Any:
    # By name: it is an extra, and only who has such a file needs it.
    try:
        yaml: Any = import_module("yaml")
    except ImportError as error:
        raise InvalidInput(
            f"settings file {path} is YAML, which needs an extra: pip install 'outlast[yaml]'"
        ) from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (at line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InvalidInput(f"settings file {path} is not proper YAML: {problem}{where}") from error
    _refuse_twice(yaml, root, path, ())
    return {} if tree is None else tree


def _refuse_twice(yaml: Any, node: Any, path: Path, above: tuple[Any, ...]) -> None:
    """YAML's own reader lets the last of two equal keys win, and a table hold itself."""
    if not isinstance(node, yaml.MappingNode):
        return
    if node in above:
        line = node.start_mark.line + 1
        raise InvalidInput(f"settings file {path} has a table that holds itself (at line {line})")
    seen = set()
    for key, value in node.value:
        name = str(key.value)
        if name in seen:
            line = key.start_mark.line + 1
            raise InvalidInput(
                f"settings file {path} has the key {name!r} twice (at line {line});"
                " keep one of them"
            )
        seen.add(name)
        _refuse_twice(yaml, value, path, (*above, node))
