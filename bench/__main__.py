"""Runs the benchmarks named on the command line, or all of them; `--write` keeps the figures."""

import argparse
import importlib
import logging
import sys
import time
import traceback
from collections.abc import Mapping, Sequence

from bench import breakdown, figures, guards, machine, report
from bench.load import FULL, QUICK, Sizes
from bench.results import Row

# In the order of the table; a scenario is imported when it runs.
SCENARIOS: Mapping[str, str] = {
    "enqueue": "singly",
    "callers": "callers",
    "burning": "burning",
    "bulk": "bulk",
    "working": "working",
    "processes": "processes",
    "crowded": "crowded",
    "latency": "latency",
    "healing": "putback",
    "reruns": "reruns",
    "guarding": "guarding",
    "detector": "detecting",
    "footprint": "footprint",
    "opening": "opening",
    "peers": "against",
    "worker": "draining",
    "crew": "crew",
    "resting": "resting",
    "commands": "commands",
}
OTHERS = ("profile", "guards")


def run_scenario(name: str, sizes: Sizes) -> list[Row]:
    module = importlib.import_module(f"bench.scenarios.{SCENARIOS[name]}")
    rows: list[Row] = module.measure(sizes.blocks) if name == "latency" else module.run(sizes)
    return rows


def run(name: str, sizes: Sizes, write: bool) -> None:
    began = time.perf_counter()
    print(f"\n== {name}", flush=True)
    if name == "guards":
        guards.main(write)
    elif name == "profile":
        breakdown.main(sizes, write)
    else:
        conditions = machine.conditions()
        rows = run_scenario(name, sizes)
        print(report.table(rows))
        if write and rows:
            found = figures.Scenario(machine.describe(), conditions, rows)
            report.write(figures.keep(name, found), list(SCENARIOS))
    print(f"({name}: {time.perf_counter() - began:.0f} s)", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    known = [*SCENARIOS, *OTHERS]
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try things")
    parser.add_argument("--write", action="store_true", help="keep the figures in the docs")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are: {', '.join(known)}")
    if given.quick and given.write:
        parser.error("--quick is for trying things; its figures are not kept")
    # Healing says who died; in a benchmark thousands do.
    logging.getLogger("outlast").setLevel(logging.ERROR)
    failed = [
        name
        for name in given.names or known
        if not survives(name, QUICK if given.quick else FULL, given.write)
    ]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def survives(name: str, sizes: Sizes, write: bool) -> bool:
    """Whether a benchmark ran to its end; one that does not must not cost the others' figures."""
    try:
        run(name, sizes, write)
    except Exception:
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    raise SystemExit(main())
