"""SQL lives in files, one operation each; this is how the store reads them.

`store/sql/common` holds what other databases understand too, `store/sql/sqlite` what only SQLite
does; below them is one folder a noun. A name is one file in all of these.
"""

import os
from functools import cache
from pathlib import Path

FOLDERS = tuple(Path(__file__).parents[1] / "sql" / dialect for dialect in ("common", "sqlite"))


def _read_all() -> dict[str, str]:
    """Every statement by its name; plain system calls, since pathlib takes five times as long."""
    texts = {}
    for folder in FOLDERS:
        for noun in os.scandir(folder):
            for file in os.scandir(noun):
                descriptor = os.open(file, os.O_RDONLY)
                try:
                    texts[file.name.removesuffix(".sql")] = os.read(descriptor, 1 << 20).decode()
                finally:
                    os.close(descriptor)
    return texts


# All at once: a process that runs out of descriptors must still find its statements.
_TEXTS = _read_all()


def sql(name: str) -> str:
    """The text of one operation."""
    return _TEXTS[name]


@cache
def shortened(name: str) -> str:
    """The same without remarks and line breaks: a text is looked up by all of its letters."""
    lines = (line.strip() for line in sql(name).splitlines())
    return " ".join(line for line in lines if not line.startswith("--"))


@cache
def rows_of(name: str, count: int) -> str:
    """A statement about several rows at once: the file's row of values, so many times."""
    head, rest = sql(name).split("-- one of these for each row\n")
    row, _, tail = rest.partition("-- and then\n")
    return head + ", ".join([row.strip()] * count) + "\n" + tail


@cache
def union_of(name: str, branches: int) -> str:
    """One ordered list out of several index ranges: the file's branch, once for each member.

    A branch speaks of its member as :member and is numbered here; SQLite merges the ordered
    branches lazily, so the cost is the rows taken and not the rows that match.
    """
    branch, order = sql(name).split("-- merged by\n")
    parts = (branch.replace(":member", f":member{n}") for n in range(branches))
    return "UNION ALL\n".join(parts) + order
