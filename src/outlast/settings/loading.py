"""Gathers the settings: arguments before the environment before the file before the defaults."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from outlast.domain.escaping import shown
from outlast.errors import InvalidInput
from outlast.logs import logger
from outlast.settings import keys
from outlast.settings.files import YAML_SUFFIXES, read_tree
from outlast.settings.knobs import KNOBS
from outlast.settings.model import Settings
from outlast.settings.rules import Seconds, at_home

_log = logger()
_STALE = "heartbeat_stale_seconds"
_WORKSPACE = "workspace"
_SQLITE = "sqlite:///"


class Loaded(NamedTuple):
    """The settings, the store named beside them, the file they came from, and which were given."""

    settings: Settings
    store: str | None
    file: Path | None
    given: frozenset[str] = frozenset()


class _Beats(NamedTuple):
    """A period told in beats; how long that is depends on what the other sources say."""

    times: float


def load(
    file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    search: bool = True,
    **arguments: Any,
) -> Loaded:
    """Settings from every source; `store` is that of the environment, else that of the file.

    The file is the one given, else the one OUTLAST_SETTINGS names, else, with `search`, an
    outlast.toml or outlast.yaml in the current folder. An argument that is None is not given.
    """
    variables = os.environ if environ is None else environ
    path = _file(file, variables, search)
    in_file, store = ({}, None) if path is None else _from_file(path)
    given = {**in_file, **_from_variables(variables), **_from_arguments(arguments)}
    return Loaded(_made(given), variables.get(keys.STORE_VARIABLE) or store, path, frozenset(given))


def _file(
    file: str | os.PathLike[str] | None, variables: Mapping[str, str], search: bool
) -> Path | None:
    named = file or variables.get(keys.FILE_VARIABLE)
    if named:
        return at_home(named, "the settings file").absolute()
    if not search:
        return None
    here = [Path(f"outlast{suffix}") for suffix in (".toml", *YAML_SUFFIXES)]
    found = [path.absolute() for path in here if path.is_file()]
    if len(found) > 1:
        raise InvalidInput(
            f"settings files {found[0]} and {found[1].name} lie side by side; keep one of them"
        )
    return found[0] if found else None


def _from_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    given = {}
    for name, value in arguments.items():
        if name not in KNOBS:
            raise _unknown(f"setting {name}", keys.nearest(name, KNOBS))
        if value is not None:
            given[name] = KNOBS[name].read(value, f"setting {name}")
    return given


def _from_variables(variables: Mapping[str, str]) -> dict[str, Any]:
    """An empty variable is one that is not set."""
    given, strange = {}, []
    for variable, text in variables.items():
        if not variable.startswith(keys.PREFIX) or variable in keys.OTHER_VARIABLES:
            continue
        name = keys.KNOB_OF_VARIABLE.get(variable)
        if name is None:
            meant = keys.nearest_variable(variable)
            if meant is not None:
                raise _unknown(f"environment variable {variable}", meant)
            strange.append(variable)
        elif text.strip():
            given[name] = KNOBS[name].read(text, f"environment variable {variable}")
    if strange:
        # Not refused: a cluster sets OUTLAST_PORT and the like for a service called outlast.
        _log.warning("environment: %s are not settings of Outlast", ", ".join(sorted(strange)))
    return given


def _from_file(path: Path) -> tuple[dict[str, Any], str | None]:
    given: dict[str, Any] = {}
    key_of: dict[str, str] = {}
    for key, value in _flat(read_tree(path), ""):
        name, read = _understood(key, value, path)
        if name in key_of:
            raise InvalidInput(
                f"settings file {path} says {name} twice, as {key_of[name]} and as {key};"
                " keep one of them"
            )
        key_of[name] = key
        if read is not None:
            given[name] = read
    return given, given.pop(keys.STORE, None)


def _flat(tree: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Keys with the tables they stand in, as in queue.recovery.action."""
    for key, value in tree.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and dotted not in keys.KNOB_OF_KEY:
            yield from _flat(value, f"{dotted}.")
        else:
            yield dotted, value


def _understood(key: str, value: Any, path: Path) -> tuple[str, Any]:
    """The knob behind a key, and its value; a key without a value is not given."""
    label = f"{key} in settings file {path}"
    if key not in keys.ALL_KEYS:
        raise _unknown(label, keys.nearest(key, keys.ALL_KEYS))
    if value is None:
        return keys.KNOB_OF_KEY.get(key, key), None
    if key in keys.STORE_KEYS:
        return keys.STORE, _store(value, label, path.parent)
    if key == keys.STALE_MULTIPLIER_KEY:
        return _STALE, _beats(value, label)
    name = keys.KNOB_OF_KEY[key]
    read = KNOBS[name].read(value, label)
    return name, path.parent / read if name == _WORKSPACE else read


def _beats(value: Any, label: str) -> _Beats:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 2:
        raise InvalidInput(f"{label} must be a number from 2, not {shown(value)}")
    return _Beats(value)


def _store(value: Any, label: str, folder: Path) -> str:
    """Relative paths in a file start from its own folder, wherever the program was started."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{label} must be a path or an sqlite:/// URL, not {shown(value)}")
    if value.startswith(_SQLITE):
        return _SQLITE + quote(str(folder / unquote(value.removeprefix(_SQLITE))))
    if "://" in value or value.startswith((":memory:", "file:")):
        return value
    return str(folder / at_home(value, label))


def _made(given: dict[str, Any]) -> Settings:
    stale = given.get(_STALE)
    if isinstance(stale, _Beats):
        rest = {name: value for name, value in given.items() if name != _STALE}
        interval_seconds = Settings(**rest).heartbeat.interval_ms / 1000
        stale_label = f"{keys.STALE_MULTIPLIER_KEY} times the interval"
        given = {**rest, _STALE: Seconds().read(stale.times * interval_seconds, stale_label)}
    return Settings(**given)


def _unknown(what: str, meant: str | None) -> InvalidInput:
    advice = f"did you mean {meant}?" if meant else "take it out, or see the list of settings"
    return InvalidInput(f"{what} is not known; {advice}")
