"""What opening a store costs a process that has its imports behind it: a new one, and again."""

import json
import subprocess
import sys

from bench.load import Sizes
from bench.machine import ROOT, empty_folder
from bench.paired import summary
from bench.results import Row, at_most
from bench.starts import ENVIRONMENT

# The first opening of a process imports the store's modules, so it is not among those measured.
OPENING = """
import json, sys, time
from outlast import Outlast

def processor_ms(path):
    app = Outlast(path)
    began = time.process_time()
    app.open()
    spent = time.process_time() - began
    app.close()
    return spent * 1e3

folder = sys.argv[1]
processor_ms(folder + "/first.db")
new = [processor_ms(f"{folder}/{number}.db") for number in range(int(sys.argv[2]))]
again = [processor_ms(f"{folder}/{number}.db") for number in range(int(sys.argv[2]))]
middle = len(new) // 2
print(json.dumps([sorted(new)[middle], sorted(again)[middle]]))
"""


def opened_ms(count: int) -> tuple[float, float]:
    """The medians of so many openings of new stores, and of so many of existing ones."""
    with empty_folder() as folder:
        done = subprocess.run(
            [sys.executable, "-c", OPENING, str(folder), str(count)],
            check=True,
            cwd=ROOT,
            env=ENVIRONMENT,
            capture_output=True,
        )
    new, again = json.loads(done.stdout)
    return new, again


def run(sizes: Sizes) -> list[Row]:
    found = [opened_ms(sizes.starts) for _ in range(sizes.blocks)]
    return [
        row("opening a new store, imports apart", [new for new, _ in found], 20),
        row("opening an existing store, imports apart", [again for _, again in found], 10),
    ]


def row(what: str, values: list[float], bound: float) -> Row:
    result = summary(values)
    note = "milliseconds of processor time"
    return at_most(what, f"{result.median:.1f} ms", result, bound, note=note)
