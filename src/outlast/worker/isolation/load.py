"""How a function is found again in another process: where it is, and how to load it from there."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from outlast.errors import PermanentError
from outlast.tasks.functions import AnyFunction, Functions, TaskFunction
from outlast.worker.isolation.messages import Place

# What multiprocessing calls the main module in its children, so that their guards hold here too.
MAIN_ELSEWHERE = "__mp_main__"


class Unreachable(PermanentError):
    """Another process cannot get hold of the function, and never will."""


class _Loading:
    """Whether this process is loading a module in order to run one of its functions."""

    module: str | None = None


def refuse_while_loading() -> None:
    """Refuse to start work from a module that is only being loaded to find a function in it."""
    if _Loading.module is not None:
        raise Unreachable(
            f"module {_Loading.module} enqueues or starts a worker when it is loaded, and a process"
            " that runs one of its functions has to load it; put that behind `if __name__ =="
            ' "__main__":`'
        )


def place_of(function: AnyFunction) -> Place:
    """Where another process finds the function; raises Unreachable if it cannot."""
    module, qualname = function.module_ref
    if "<" in qualname:
        raise Unreachable(
            f"{qualname} of module {module} is defined inside a function, where its own process"
            " cannot find it; define it at the top level of the module"
        )
    file = _file_of(module, function.fn)
    if module == "__main__":
        spec: ModuleSpec | None = getattr(sys.modules[module], "__spec__", None)
        if spec is not None and spec.name != module:
            return Place(spec.name, qualname)
    elif _is_importable(module, file):
        return Place(module, qualname)
    if file is None or not os.path.isfile(file):
        raise Unreachable(
            f"{qualname} of module {module} has no file that its own process could load it from;"
            " define it in a module"
        )
    return Place(module, qualname, os.fsencode(os.path.abspath(file)))


def _file_of(module: str, fn: Callable[..., Any]) -> str | None:
    """The file a function came from, also if its module was run and never registered.

    The function's own globals know best: another module may be registered by the name.
    """
    own = getattr(inspect.unwrap(fn), "__globals__", {})
    known = own.get("__file__") if own.get("__name__") == module else None
    if known is None:
        known = getattr(sys.modules.get(module), "__file__", None) or own.get("__file__")
    return known if isinstance(known, str) else None


def _is_importable(module: str, file: str | None) -> bool:
    """Whether the name alone leads to the module; asks past sys.modules, which proves nothing."""
    package, _, _ = module.rpartition(".")
    path = getattr(sys.modules.get(package), "__path__", None) if package else None
    for finder in sys.meta_path:
        spec = finder.find_spec(module, path)
        if spec is not None:
            return file is None or spec.origin is None or _is_same(spec.origin, file)
    return False


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one == other


def load(place: Place, kind: str) -> AnyFunction:
    """The registered function at a place; raises Unreachable if there is none."""
    try:
        with _loading(place.module):
            module = _module_at(place)
    except ModuleNotFoundError as error:
        raise Unreachable(
            f"its own process could not load {place.qualname} from module {place.module}: {error}"
        ) from None
    found = _registered(module, place.qualname, kind)
    if found is None:
        raise Unreachable(
            f"module {place.module} has no task {kind} when it is loaded in a process of its own;"
            " register it at the top level of the module, not behind a condition"
        )
    return found


@contextmanager
def _loading(module: str) -> Iterator[None]:
    _Loading.module = module
    try:
        yield
    finally:
        _Loading.module = None


def _module_at(place: Place) -> ModuleType:
    if place.file is None:
        return importlib.import_module(place.module)
    name = MAIN_ELSEWHERE if place.module == "__main__" else place.module
    file = os.fsdecode(place.file)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == file:
        return known
    return _run_file(file, name)


def _run_file(file: str, name: str) -> ModuleType:
    """Run a script as a module that is not the main one, as multiprocessing does."""
    folder = os.path.dirname(file)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = ModuleType(name)
    module.__file__ = file
    with open(file, "rb") as opened:
        code = compile(opened.read(), file, "exec")
    before = {one: sys.modules.get(one) for one in (name, "__main__")}
    sys.modules[name] = module
    if name == MAIN_ELSEWHERE:
        sys.modules["__main__"] = module
    try:
        exec(code, vars(module))
    except BaseException:
        for one, was in before.items():
            if was is None:
                sys.modules.pop(one, None)
            else:
                sys.modules[one] = was
        raise
    return module


def _registered(module: ModuleType, qualname: str, kind: str) -> AnyFunction | None:
    """The function by its name; or, if that stayed plain, whatever is registered for the kind."""
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    values = list(vars(module).values())
    for candidate in (found, *values):
        if isinstance(candidate, TaskFunction) and candidate.kind == kind:
            return candidate
    registries = (one.functions for one in values if _has_functions(type(one)))
    for registry in registries:
        if isinstance(registry, Functions) and kind in registry:
            return registry[kind]
    return None


def _has_functions(of: type) -> bool:
    """Asks the class: an object of the user's may answer to any name, or do something."""
    return isinstance(getattr(of, "functions", None), property)
