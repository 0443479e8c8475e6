"""A defect planted into a copy of the package, and an experiment that is let loose on it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import outlast
from lab.mutants.places import read_source, replaced

PACKAGE = Path(outlast.__file__).parent
PATIENCE_SECONDS = 240


def planted(
    folder: Path, place: str, change: tuple[str, str], experiment: str, case: str
) -> dict[str, Any]:
    """What `outlast lab` says of a copy in which one text stands in place of another."""
    return planted_package(folder, place, change).told(experiment, case)


def planted_package(folder: Path, place: str, change: tuple[str, str]) -> "PlantedPackage":
    """A copy in which one text stands in place of another, for experiments one after another."""
    copy = folder / "planted" / "outlast"
    # Times are kept, so compiled files of what is not changed stay valid.
    shutil.copytree(PACKAGE, copy)
    path, text = replaced(read_source(copy), place, *change)
    (copy / path).write_text(text, encoding="utf-8")
    return PlantedPackage(copy.parent, folder / "kept")


class PlantedPackage(NamedTuple):
    path: Path
    kept: Path

    def told(self, experiment: str, case: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "outlast", "lab", experiment, "--case", case, "--seed", "1",
             "--json", "--keep", str(self.kept)],
            env=os.environ | {"PYTHONPATH": str(self.path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found
