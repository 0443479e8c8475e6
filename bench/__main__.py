"""Runs the benchmarks named on the command line, or all of them."""

import sys
from collections.abc import Callable, Mapping

from bench import guards

BENCHMARKS: Mapping[str, Callable[[bool], None]] = {"guards": guards.main}


def main(arguments: list[str]) -> int:
    names = [name for name in arguments if name != "--write"]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        known = ", ".join(BENCHMARKS)
        print(
            f"no benchmark {unknown[0]!r}; there are: {known} (--write keeps the figures)",
            file=sys.stderr,
        )
        return 2
    for name in names or BENCHMARKS:
        BENCHMARKS[name]("--write" in arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
