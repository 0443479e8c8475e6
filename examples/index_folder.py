"""Index the text files of a folder, so that they can be searched: a small job that outlives kills.

    ./run up examples/index_folder.py                 index this repository; ends when all is done
    INDEX_FOLDER=~/notes ./run up examples/…          index a folder of yours
    ./run python examples/index_folder.py kill lease  search for words

Kill it at any moment, with `kill -9` too, and start it again: it goes on where it was. Each file
is a task. What it writes goes into a SQLite file of its own, `index.db`, in the current folder;
the tasks are in `index-work.db` beside it. To begin anew: `rm -r index.db index-work.db*`.

A task that was hit by a kill is run again, so its effect must bear repeating. Here it does: a file
has one text, which is replaced in one transaction. And a task is asked for under a key made of the
file's name, time and size: starting again asks for the same tasks, not for more of them.
"""

import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from outlast import Context, Outlast, PermanentError

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("INDEX_FOLDER", REPOSITORY)).expanduser().resolve()
SUFFIXES = {".md", ".txt", ".rst", ".py", ".sql", ".toml"}
INDEX = Path("index.db").absolute()
TABLES = (
    "CREATE TABLE IF NOT EXISTS files (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5(text)",
)
GROUP = "files"
THIS_START = uuid4().hex

app = Outlast("index-work.db")


@app.task(max_retries=0)
def index(path: str) -> dict[str, int]:
    """Put one file into the index, in place of what is there of it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PermanentError(f"{path} cannot be read: {error}") from None
    with opened_index() as connection:
        connection.execute("INSERT OR IGNORE INTO files (path) VALUES (?)", (path,))
        connection.execute(
            "INSERT OR REPLACE INTO texts (rowid, text) SELECT id, ? FROM files WHERE path = ?",
            (text, path),
        )
    return {"words": len(text.split())}


@app.task(priority=-1)
def finish(ctx: Context, start: str) -> str:
    """Runs after the files: says what there is, and asks the worker to end."""
    if start != THIS_START:
        return "of an earlier start, which was killed"
    while not app.group(GROUP).done:
        if ctx.wait(0.1):
            return "stopped early"
    with opened_index() as connection:
        (count,) = connection.execute("SELECT count(*) FROM files").fetchone()
    said = f"{count} files of {FOLDER} can be searched: ./run python examples/index_folder.py WORD"
    print(said, file=sys.stderr)
    os.kill(os.getpid(), signal.SIGTERM)
    return said


@contextmanager
def opened_index() -> Iterator[sqlite3.Connection]:
    """Our own tables; what happens in the block is one transaction."""
    connection = sqlite3.connect(INDEX, timeout=60, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        for statement in TABLES:
            connection.execute(statement)
        yield connection
        connection.execute("COMMIT")
    finally:
        connection.close()


def ask() -> None:
    """Store a task for every file that is new or has changed, and one to end with."""
    files = list(text_files(FOLDER))
    if not files:
        sys.exit(f"there is no text file in {FOLDER}; set INDEX_FOLDER to a folder that has some")
    keys = [key_of(path) for path in files]
    index.using(idempotency_key=keys, group=GROUP).enqueue_many(map(str, files))
    finish.enqueue(THIS_START)


def key_of(path: Path) -> str:
    """The same for the same state of a file; of any length, so it is hashed."""
    found = path.stat()
    return sha256(f"{path} {found.st_mtime_ns} {found.st_size}".encode()).hexdigest()


def text_files(folder: Path) -> Iterator[Path]:
    """Files with text in them, hidden folders left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def search(words: list[str]) -> None:
    """Print the files in which all of the words stand, the best first."""
    query = " ".join(f'"{word.replace(chr(34), "")}"' for word in words)
    with opened_index() as connection:
        rows = connection.execute(
            "SELECT path, snippet(texts, 0, '[', ']', ' … ', 12)"
            " FROM texts JOIN files ON files.id = texts.rowid"
            " WHERE texts MATCH ? ORDER BY rank LIMIT 10",
            (query,),
        ).fetchall()
    for path, snippet in rows:
        print(f"{path}\n    {' '.join(snippet.split())}")
    print(f"{len(rows)} of the best" if rows else "nothing found; is it indexed?")


if __name__ == "__main__":
    search(sys.argv[1:] or ["outlast"])
else:
    ask()
