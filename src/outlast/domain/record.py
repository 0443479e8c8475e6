"""Frozen dataclasses whose methods are compiled when the first of them is used.

A dataclass compiles six methods when its class is made. Most programs use few of the records, and
compiling all of them took a quarter of the time that importing the package took.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

_COMPILED = ("__init__", "__repr__", "__eq__", "__hash__")


class _Uncompiled:
    """A descriptor in the place of a method; it replaces all of its class when it is looked up."""

    __slots__ = ("_name", "_record")

    def __init__(self, record: type, name: str) -> None:
        self._record = record
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        _compile(self._record)
        return getattr(owner if instance is None else instance, self._name)


def _compile(record: type) -> None:
    """Take the methods from a subclass; a second thread that does the same does no harm."""
    place = {name: getattr(record, name) for name in ("__module__", "__qualname__", "__doc__")}
    complete: type = dataclass(frozen=True)(type(record.__name__, (record,), place))
    for name in _COMPILED:
        if isinstance(vars(record)[name], _Uncompiled):
            setattr(record, name, vars(complete)[name])


def _record(*, frozen: Literal[True], slots: bool = False, kw_only: bool = False) -> Any:
    options = {"frozen": frozen, "slots": slots, "kw_only": kw_only}

    def decorate(cls: type) -> type:
        made: type = dataclass(init=False, repr=False, eq=False, **options)(cls)
        for name in _COMPILED:
            if name not in vars(made):
                setattr(made, name, _Uncompiled(made, name))
        return made

    return decorate


# Type checkers know the fields of what they see as a dataclass.
if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    record = _record

__all__ = ["record"]
