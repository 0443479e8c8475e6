"""A process is known by its start time in every time namespace of the host."""

import os
import subprocess
import sys

import pytest

from outlast.host import processes

_ASKS = """
import sys
from outlast.host import processes
print(processes.process_is(int(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.mark.parametrize("offset_seconds", [3600, -100])
def test_a_living_process_is_recognised_from_another_time_namespace(offset_seconds: int) -> None:
    """There the kernel shows start times shifted, and a living holder would be taken for gone."""
    here = processes.this_process()
    command = ["unshare", "--time", "--boottime", str(offset_seconds), "--fork"]
    if os.geteuid() != 0:
        command[1:1] = ["--user", "--map-root-user"]
    asks = [sys.executable, "-c", _ASKS, str(here.pid), str(here.started)]
    done = subprocess.run([*command, *asks], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
