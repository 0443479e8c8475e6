"""What a registered function takes: calls become payloads, and payloads become arguments again."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any, get_type_hints

import msgspec

from outlast.domain import codec
from outlast.errors import InvalidInput, PayloadRejected

CONTEXT = "ctx"

_SCALARS = frozenset({str, int, float, bool, type(None)})
_ABSENT = inspect.Parameter.empty
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_AT = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)
_PLACE = re.compile(r"(\w+)(.*)", re.DOTALL)
_FIELD = re.compile(r"Object (missing required|contains unknown) field `([^`]*)`")

_BY_IDENTITY: Any = object.__eq__


class Arguments:
    """The parameters of one function, without its context.

    A payload is checked by the very conversion that will turn it into arguments when the task
    runs. Annotations are resolved when they are first needed, since a type may be defined later.
    """

    def __init__(self, fn: Callable[..., Any], label: str) -> None:
        self._fn = fn
        self._label = label
        self._parameters = _parameters(fn, label)
        self._positional = tuple(one.name for one in self._parameters if one.kind in _BY_POSITION)
        self._shape: type[msgspec.Struct] | None = None
        self._decode: Callable[[str], Any] | None = None
        self._build(is_early=True)

    def payload_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The payload of a call: its arguments by name, checked and ready for JSON."""
        if len(args) > len(self._positional):
            most = len(self._positional)
            raise InvalidInput(
                f"{self._label} takes at most {most} positional arguments, not {len(args)}"
            )
        given = dict(zip(self._positional, args, strict=False))
        if kwargs:
            twice = given.keys() & kwargs.keys()
            if twice:
                raise InvalidInput(f"{self._label} was given its argument {min(twice)} twice")
            given |= kwargs
        return self.checked(given)

    def payload_of_one(self, call: Any) -> dict[str, Any]:
        """The payload of one call of many: a tuple of arguments, a dict of them, or the first."""
        if isinstance(call, dict):
            return self.checked(call)
        return self.payload_of(call if type(call) is tuple else (call,), {})

    def checked(self, payload: Any) -> dict[str, Any]:
        """A payload, ready for JSON, if it is one that the function can be run with."""
        given = self._named(payload)
        try:
            return self._checked(given)
        except RecursionError as error:
            raise PayloadRejected(
                f"the arguments of {self._label} are nested too deeply, or contain themselves"
            ) from error

    def _checked(self, given: dict[str, Any]) -> dict[str, Any]:
        if _SCALARS.issuperset(map(type, given.values())):
            self._converted(given)
            return given
        plain = {name: self._plain(name, value) for name, value in given.items()}
        back = self._converted(plain)
        for name, value in given.items():
            if not _comes_back(value, getattr(back, name)):
                raise self._changes(name, value)
        return plain

    def from_payload(self, payload: Any) -> dict[str, Any]:
        """The arguments to run with, as what their annotations say; defaults are left out."""
        return _given_in(self._converted(self._named(payload)))

    def from_text(self, text: str | None) -> dict[str, Any]:
        """The same from JSON text, in one go: a worker does this for every task."""
        if text is None or self._decode is None:
            return self.from_payload(None if text is None else codec.decode(text))
        try:
            return _given_in(self._decode(text))
        except msgspec.ValidationError:
            # The way over the decoded payload has the better words for what is wrong.
            return self.from_payload(codec.decode(text))

    def _named(self, payload: Any) -> dict[str, Any]:
        if payload is None:
            return {}
        if not isinstance(payload, dict):
            names = ", ".join(f'"{one.name}": …' for one in self._parameters[:3])
            raise InvalidInput(
                f"the payload of {self._label} must be a dict of its arguments by name, such as"
                f" {{{names}}}, not a {type(payload).__name__}"
            )
        return payload

    def _converted(self, plain: dict[str, Any]) -> msgspec.Struct:
        if self._shape is None:
            self._build(is_early=False)
        shape: Any = self._shape
        try:
            values: msgspec.Struct = msgspec.convert(
                plain, shape, strict=True, str_keys=True, dec_hook=_revived
            )
        except msgspec.ValidationError as error:
            raise InvalidInput(self._refusal(str(error))) from None
        return values

    def _plain(self, name: str, value: Any) -> Any:
        try:
            return msgspec.to_builtins(value, str_keys=True, enc_hook=dumped)
        except (TypeError, ValueError, OverflowError) as error:
            raise PayloadRejected(
                f"argument {name} of {self._label} is not storable as JSON: {_one_line(error)}"
            ) from error

    def _build(self, *, is_early: bool) -> None:
        """Make the record that the arguments fill, unless an annotation has no meaning yet."""
        try:
            types = _resolved(self._fn, self._parameters)
            fields = [
                (one.name, types[one.name])
                if one.default is _ABSENT
                else (one.name, types[one.name], msgspec.UNSET)
                for one in self._parameters
            ]
            shape = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
            _refuse_unknown_classes(msgspec.inspect.type_info(shape))
            self._decode = msgspec.json.Decoder(shape, strict=True, dec_hook=_revived).decode
            self._shape = shape
        except (NameError, AttributeError) as error:
            if is_early:
                return
            raise InvalidInput(
                f"an annotation of {self._label} cannot be resolved: {error}; import or define"
                " it at the top level of its module"
            ) from error
        except (TypeError, SyntaxError) as error:
            raise InvalidInput(
                f"the arguments of {self._label} cannot be told from JSON: {_one_line(error)}"
            ) from error

    def _refusal(self, detail: str) -> str:
        """One sentence on why a payload does not fit, from what the conversion says."""
        field = _FIELD.fullmatch(detail)
        if field:
            if field[1] == "missing required":
                return f"{self._label} needs its argument {field[2]}"
            return f"{self._label} takes no argument {field[2]}; it takes {self._takes()}"
        found = _AT.fullmatch(detail)
        place = found and _PLACE.match(found[2])
        if not found or not place:
            return f"the arguments of {self._label} do not fit: {_lowered(detail)}"
        field = _FIELD.fullmatch(found[1])
        reason = f"its field {field[2]} is missing" if field else _lowered(found[1])
        inside = f", at {place[0]}" if place[2] else ""
        return f"{self._must_be(place[1])}: {reason}{inside}"

    def _changes(self, name: str, value: Any) -> InvalidInput:
        kind = type(value).__name__
        return InvalidInput(
            f"{self._must_be(name)}: the {kind} given would not come back from JSON as it is;"
            " convert it first, or annotate the parameter with its type"
        )

    def _must_be(self, name: str) -> str:
        (annotation,) = (one.annotation for one in self._parameters if one.name == name)
        if annotation is _ABSENT:
            return f"argument {name} of {self._label} must be plain JSON"
        shown = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        return f"argument {name} of {self._label} must be {shown}"

    def _takes(self) -> str:
        return ", ".join(one.name for one in self._parameters) or "none"


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """A function's signature, with annotations left alone that cannot be evaluated yet."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(fn, annotation_format=Format.FORWARDREF)
    return inspect.signature(fn)


def wants_context(fn: Callable[..., Any]) -> bool:
    """Whether the first parameter is the context."""
    return next(iter(signature_of(fn).parameters), None) == CONTEXT


def _parameters(fn: Callable[..., Any], label: str) -> list[inspect.Parameter]:
    """What a caller may pass by name; refuses what a payload of named arguments cannot hold."""
    found = list(signature_of(fn).parameters.values())
    if found and found[0].name == CONTEXT and found[0].kind in _BY_POSITION:
        found = found[1:]
    for one in found:
        if one.name == CONTEXT:
            raise InvalidInput(f"{label} must take ctx as its first, positional parameter")
        if one.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise InvalidInput(f"{label} takes {one.name} by position only; drop the `/`")
        if one.kind is inspect.Parameter.VAR_POSITIONAL:
            raise InvalidInput(f"{label} takes *{one.name}, which have no names; take a list")
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            raise InvalidInput(f"{label} takes **{one.name}, whose names are open; take a dict")
    return found


def _resolved(fn: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """The types of the parameters alone: what the others say need not exist when we run."""
    annotations = {
        one.name: Any if one.annotation in (_ABSENT, object) else one.annotation
        for one in parameters
    }
    names = getattr(inspect.unwrap(fn), "__globals__", {})
    stub: Any = SimpleNamespace(__annotations__=annotations)
    return get_type_hints(stub, globalns=names, include_extras=True)


def _refuse_unknown_classes(root: msgspec.inspect.Type) -> None:
    for found in _types_in(root):
        if isinstance(found, msgspec.inspect.CustomType):
            cls = found.cls
            if not (is_model(cls) or (isinstance(cls, type) and issubclass(cls, PurePath))):
                name = getattr(cls, "__qualname__", str(cls))
                raise TypeError(f"{name} is no type of JSON; use a dataclass or a plain type")


def _types_in(root: msgspec.inspect.Type) -> Iterator[Any]:
    """A description of a type and all that it is made of, each once."""
    seen: set[int] = set()
    waiting: list[Any] = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, msgspec.inspect.Type | msgspec.inspect.Field):
            yield one
            waiting += [getattr(one, name) for name in one.__struct_fields__]
        elif isinstance(one, tuple):
            waiting += one


def is_model(cls: Any) -> bool:
    """Whether it is a model of pydantic, or behaves like one."""
    return callable(getattr(cls, "model_validate", None)) and hasattr(cls, "model_dump")


def dumped(value: Any) -> Any:
    """What msgspec cannot write by itself, as plain values."""
    if isinstance(value, PurePath):
        return str(value)
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _revived(cls: Any, value: Any) -> Any:
    """What msgspec cannot read by itself, from plain values."""
    if issubclass(cls, PurePath):
        if not isinstance(value, str):
            raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
        return cls(value)
    try:
        if hasattr(cls, "model_validate_json"):
            # The value came out of JSON, where even a strict model takes a text for a date.
            return cls.model_validate_json(msgspec.json.encode(value))
        return cls.model_validate(value)
    except ValueError as error:
        raise ValueError(_said_by_model(error)) from None


def _said_by_model(error: ValueError) -> str:
    """The complaints of a model in one line, without the values it complains about."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return _one_line(error)
    said: Iterable[dict[str, Any]] = errors()
    return "; ".join(": ".join([*map(str, one["loc"]), one["msg"]]) for one in said)


def _given_in(values: msgspec.Struct) -> dict[str, Any]:
    found = msgspec.structs.asdict(values)
    return {name: value for name, value in found.items() if value is not msgspec.UNSET}


def _comes_back(given: Any, back: Any) -> bool:
    """Whether the function will see what was passed; JSON itself may stand for richer types."""
    if given == back:
        return True
    if type(given) is type(back) and type(given).__eq__ is _BY_IDENTITY:
        return True
    if isinstance(given, list | tuple) and isinstance(back, list | tuple):
        return all(map(_comes_back, given, back))
    if isinstance(given, dict) and isinstance(back, dict) and given.keys() == back.keys():
        return all(_comes_back(value, back[key]) for key, value in given.items())
    return _is_json(given)


def _is_json(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_json, value))
    if type(value) is dict:
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    return type(value) in _SCALARS


def _lowered(text: str) -> str:
    """A sentence of msgspec as the second half of one of ours."""
    return text[:1].lower() + _one_line(text[1:])


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
