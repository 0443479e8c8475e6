"""Finding the program that a worker is to run: APP as a module, a file, or a name in either."""

import os
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from outlast.cli.output.text import is_debugging

if TYPE_CHECKING:
    from outlast import Outlast


def load(target: str) -> "Outlast":
    """The Outlast object that APP stands for.

    `jobs:app` is a name in a module, `jobs` a module, `path/jobs.py` or `path/jobs.py:app` a file.
    Without a name it is `app`, or else the only Outlast object there is.
    """
    place, name = _parted(target)
    _put_first(os.getcwd())
    is_file = place.endswith(".py") or os.sep in place
    module = _from_file(Path(place)) if is_file else _from_name(place)
    return _named(module, place, name) if name else _only(module, place)


def _parted(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    if not colon:
        place, name = target, ""
    if not place or (colon and not name.isidentifier()):
        raise click.UsageError(f"APP must be module:app or a file such as jobs.py, not {target!r}")
    return place, name


def _put_first(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _from_name(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise click.UsageError(f"APP must be module:app or a file such as jobs.py, not {name!r}")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise click.UsageError(
                f"there is no module {name!r} in this folder or installed; give module:app or"
                " the path of a file"
            ) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise click.UsageError(f"there is no file {str(path)!r}; give module:app or a file's path")
    path = path.resolve()
    _put_first(str(path.parent))
    name = _free_name(path.stem)
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{str(path)!r} is not a Python file; its name must end with .py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(str(path), error) from error
    return module


def _free_name(stem: str) -> str:
    """The file's own name, unless a module of that name would be hidden by it."""
    taken = stem in sys.modules or stem in sys.stdlib_module_names
    return f"outlast_app_{stem}" if taken else stem


def _broken(place: str, error: BaseException) -> click.UsageError:
    hint = "" if is_debugging() else " (OUTLAST_DEBUG=1 shows where)"
    return click.UsageError(f"{place} cannot be loaded: {type(error).__name__}: {error}{hint}")


def _named(module: ModuleType, place: str, name: str) -> "Outlast":
    found = getattr(module, name, None)
    if found is None:
        raise click.UsageError(f"{place} has no {name!r}; name an Outlast object of it")
    return _checked(found, f"{name!r} in {place}")


def _only(module: ModuleType, place: str) -> "Outlast":
    values = vars(module)
    app = _outlast(values.get("app"))
    if app is not None:
        return app
    names = {name: found for name, value in values.items() if (found := _outlast(value))}
    if len({id(value) for value in names.values()}) == 1:
        return next(iter(names.values()))
    if names:
        listed = ", ".join(sorted(names))
        raise click.UsageError(f"{place} has several Outlast objects ({listed}); add :name")
    raise click.UsageError(f'{place} has no Outlast object; write app = Outlast("work.db") there')


def _checked(found: object, what: str) -> "Outlast":
    app = _outlast(found)
    if app is None:
        kind = type(found).__name__
        raise click.UsageError(f"{what} is of type {kind}, and an Outlast object is needed")
    return app


def _outlast(found: object) -> "Outlast | None":
    """The object for threads; that of a program for coroutines shares its store and functions."""
    from outlast import Outlast

    # Asked by name, for the module of that class takes long to load.
    if type(found).__module__.startswith("outlast.app.aio."):
        found = getattr(found, "sync", None)
    return found if isinstance(found, Outlast) else None
