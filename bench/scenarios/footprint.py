"""What `import outlast` costs over bare Python, and the memory of a process with an idle store."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.load import Sizes
from bench.machine import ROOT, empty_folder
from bench.paired import rotated, summary
from bench.results import Row

UNWRITTEN = "PYTHONDONTWRITEBYTECODE"
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


# Bytecode is written at the first start and measured from then on, as users have it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != UNWRITTEN}


def start_ms(program: str) -> float:
    """Start an interpreter, run a program in it, and wait for its end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env=ENVIRONMENT)
    return (time.perf_counter() - began) * 1e3


Blocks = dict[str, list[float]]


def start_blocks(blocks: int, starts: int) -> Blocks:
    """For each block, the bare start, and what each program adds to it; medians of many."""
    found: Blocks = {BARE: [], IMPORTING: [], MAKING: []}
    for block in range(-1, blocks):
        times: Blocks = {program: [] for program in found}
        for number in range(starts if block >= 0 else 2):
            for program in rotated(list(times), number):
                times[program].append(start_ms(program))
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
        start_row("import outlast and make an Outlast object", starts, MAKING, (None, None)),
        Row(
            what="resident memory of an idle open store",
            ours=f"{memory.median:.0f} MB",
            yardstick=f"bare Python: {empty:.0f} MB",
            ratio=memory.median,
            low=memory.low,
            high=memory.high,
            at_least=40,
            aim=30,
            higher_is_better=False,
            note="megabytes, the whole process",
        ),
    ]


def start_row(
    what: str, starts: Blocks, program: str, bounds: tuple[float | None, float | None]
) -> Row:
    found = summary(starts[program])
    at_least, aim = bounds
    return Row(
        what=what,
        ours=f"{found.median:.0f} ms",
        yardstick=f"bare Python: {statistics.median(starts[BARE]):.0f} ms",
        ratio=found.median,
        low=found.low,
        high=found.high,
        at_least=at_least,
        aim=aim,
        higher_is_better=False,
        note="milliseconds",
    )
