"""The processor time of a command from its start to its end; a busy machine changes it least."""

import os
import subprocess
from collections.abc import Sequence

from bench.machine import ROOT

UNWRITTEN = "PYTHONDONTWRITEBYTECODE"

# Bytecode is written at the first start and measured from then on, as users have it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != UNWRITTEN}


def processor_ms(command: Sequence[str]) -> float:
    """User and system time of one process, which has to end well."""
    with subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return (used.ru_utime + used.ru_stime) * 1e3
