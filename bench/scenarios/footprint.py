"""What `import outlast` costs over bare Python, and the memory of a process with an idle store."""

import statistics
import subprocess
import sys
from pathlib import Path

from bench.load import Sizes
from bench.machine import ROOT, empty_folder
from bench.paired import rotated, summary
from bench.results import Row, at_most
from bench.starts import ENVIRONMENT, processor_ms

BARE = "pass"
IMPORTING = "import outlast"
MAKING = "import outlast; outlast.Outlast('work.db')"
RESIDENT = "print(next(l for l in open('/proc/self/status') if l.startswith('VmRSS')).split()[1])"
OPEN = f"""
import sys
from outlast import Outlast
with Outlast(sys.argv[1]) as app:
    {RESIDENT}
"""

Blocks = dict[str, list[float]]


def start_blocks(blocks: int, starts: int) -> Blocks:
    """For each block, the bare start, and what each program adds to it; medians of many."""
    found: Blocks = {BARE: [], IMPORTING: [], MAKING: []}
    for block in range(-1, blocks):
        times: Blocks = {program: [] for program in found}
        for number in range(starts if block >= 0 else 2):
            for program in rotated(list(times), number):
                times[program].append(processor_ms([sys.executable, "-c", program]))
        if block >= 0:
            bare = statistics.median(times[BARE])
            found[BARE].append(bare)
            for program in (IMPORTING, MAKING):
                found[program].append(statistics.median(times[program]) - bare)
    return found


def resident_mb(program: str, path: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        check=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
    )
    return int(done.stdout) * 1024 / 1e6


def run(sizes: Sizes) -> list[Row]:
    starts = start_blocks(sizes.blocks, sizes.starts)
    with empty_folder() as folder:
        idle = [resident_mb(OPEN, folder / "work.db") for _ in range(sizes.blocks)]
        empty = statistics.median(
            resident_mb(RESIDENT, folder / "none") for _ in range(sizes.blocks)
        )
    memory = summary(idle)
    return [
        start_row("import outlast, over bare Python", starts, IMPORTING, (80, 50)),
        start_row("import outlast and make an Outlast object", starts, MAKING, (80, None)),
        at_most(
            "resident memory of an idle open store",
            f"{memory.median:.0f} MB",
            memory,
            40,
            yardstick=f"bare Python: {empty:.0f} MB",
            aim=30,
            note="megabytes, the whole process",
        ),
    ]


def start_row(
    what: str, starts: Blocks, program: str, bounds: tuple[float | None, float | None]
) -> Row:
    found = summary(starts[program])
    bound, aim = bounds
    return at_most(
        what,
        f"{found.median:.0f} ms",
        found,
        bound,
        yardstick=f"bare Python: {statistics.median(starts[BARE]):.0f} ms",
        aim=aim,
        note="milliseconds of processor time",
    )
