"""The lives of this experiment: those of all experiments, and one that only power can end badly."""

from contextlib import suppress
from pathlib import Path

import apsw

from outlast.host import probe_points
from outlast_lab.history import Write
from outlast_lab.lives import Life, founded, nth, opened
from outlast_lab.recovery_lives import ALL_LIVES as LIVES

PAST_A_READER = "flush past a reader"


def flush_past_a_reader(path: Path, write: Write) -> None:
    """Somebody reads an old state until the first pass of a flush is over, so the second moves all.

    Then the log begins anew: what it held must be in the main file by then, and synced.
    """
    one, _ = opened(path, write)
    one.enqueue("before", "x" * 3000)
    with suppress(apsw.Error):
        reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM tasks").fetchall()
        _end_at("flush.counted", reader)
    one.enqueue("meanwhile", "y" * 3000)
    one.complete(nth(one.claim(), 0), "done")
    one.flush("truncate")
    one.enqueue("after", "z" * 3000)


def _end_at(point: str, reader: apsw.Connection) -> None:
    armed = probe_points.armed()

    def end_the_reader(name: str) -> None:
        if armed is not None:
            armed(name)
        if name == point:
            reader.close()

    probe_points.arm(end_the_reader)


ALL_LIVES = LIVES | {PAST_A_READER: Life(founded, flush_past_a_reader)}
