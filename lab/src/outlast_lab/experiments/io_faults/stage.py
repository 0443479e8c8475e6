"""The fork servers of the experiment, which share a folder."""

from pathlib import Path

from outlast_lab.stage.fork_server import ForkServer
from outlast_lab.stage.pool import Pool, as_many_as_processors

_MOST_STAGES = 4


def stages(folder: Path, count: int = 0) -> Pool:
    """As many as asked for, or as the machine has processors for."""
    return Pool(
        ForkServer("outlast_lab.experiments.io_faults.serving:main", str(folder))
        for _ in range(count or as_many_as_processors(_MOST_STAGES))
    )
