"""The probes in the source, found by reading it: literal names, and the writer's contexts."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "outlast"


def probes_in(text: str) -> tuple[set[str], set[str], set[str]]:
    """Names of probes, what follows the context in built names, and contexts of writes."""
    names: set[str] = set()
    points: set[str] = set()
    contexts: set[str] = set()
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        if _called(call) == "probe":
            match call.args[0]:
                case ast.Constant(value=str(name)):
                    names.add(name)
                case ast.JoinedStr(values=[ast.FormattedValue(), ast.Constant(value=str(end))]):
                    points.add(end)
                case other:
                    raise ValueError(f"probe({ast.unparse(other)}) cannot be found by its name")
        contexts.update(_contexts(call))
    if points:
        contexts.update(_contexts_of_many(text))
    return names, points, contexts


def all_probes(folder: Path = SOURCE) -> set[str]:
    """Every name a probe can have."""
    found = [probes_in(file.read_text(encoding="utf-8")) for file in folder.rglob("*.py")]
    names, points, contexts = (set[str]().union(*part) for part in zip(*found, strict=True))
    return names | {context + point for context in contexts for point in points}


def _contexts(call: ast.Call) -> Iterator[str]:
    """The first argument of `access.write(...)` and its like, the second of `Operation(...)`.

    What manages its own transaction passes no probe of the writer's.
    """
    match call.func:
        case ast.Attribute(
            value=ast.Attribute(attr="_access" | "access") | ast.Name(id="access"),
            attr="write" | "submit",
        ):
            place = 0
        case ast.Attribute(attr="_write" | "_batch"):
            place = 0
        case ast.Name(id="Operation") if not _is_exclusive(call):
            place = 1
        case _:
            return
    match call.args[place]:
        case ast.Constant(value=str(context)):
            yield context
        case ast.Name(id="context"):
            pass
        case other:
            raise ValueError(f"the context {ast.unparse(other)} cannot be found by its name")


def _is_exclusive(call: ast.Call) -> bool:
    return any(one.arg == "is_exclusive" for one in call.keywords)


def _contexts_of_many(text: str) -> Iterator[str]:
    """What stands in for the context where several operations share a transaction."""
    for node in ast.walk(ast.parse(text)):
        match node.value if isinstance(node, ast.Assign | ast.Return) else None:
            case ast.IfExp(
                body=ast.Attribute(attr="context"), orelse=ast.Constant(value=str(name))
            ):
                yield name


def _called(call: ast.Call) -> str | None:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None
