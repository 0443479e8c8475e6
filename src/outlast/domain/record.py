"""Frozen dataclasses whose methods are compiled when the first of them is used.

A dataclass compiles six methods when its class is made. Most programs use few of the records, and
compiling all of them took a quarter of the time that importing the package took. Four are compiled
later here; the two that refuse changes are the same for all records, and need no compiling.
"""

from dataclasses import FrozenInstanceError, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NoReturn

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


def _refuse_change(record: Any, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(record: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(record: Any) -> list[Any]:
    """What is pickled, in the form that frozen dataclasses with slots have given it always."""
    return [getattr(record, field.name) for field in fields(record)]


def _restore(record: Any, values: list[Any]) -> None:
    for field, value in zip(fields(record), values, strict=True):
        object.__setattr__(record, field.name, value)


def _record(*, frozen: Literal[True], slots: bool = False, kw_only: bool = False) -> Any:
    methods: dict[str, Any] = {"__setattr__": _refuse_change, "__delattr__": _refuse_deletion}
    if slots:
        # By default pickle restores slots by assignment, which is refused.
        methods |= {"__getstate__": _state, "__setstate__": _restore}

    def decorate(cls: type) -> type:
        options = {"slots": slots, "kw_only": kw_only}
        made: type = dataclass(init=False, repr=False, eq=False, **options)(cls)
        # A frozen dataclass can be derived from a frozen one only, and `_compile` derives one.
        vars(made)["__dataclass_params__"].frozen = frozen
        for name in _COMPILED:
            if name not in vars(made):
                setattr(made, name, _Uncompiled(made, name))
        for name, method in methods.items():
            setattr(made, name, method)
        return made

    return decorate


# Type checkers know the fields of what they see as a dataclass.
if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    record = _record

__all__ = ["record"]
