"""What the simulator has found in Outlast, each as the short script it was shrunk to."""

from pathlib import Path

import pytest

from outlast_lab import model
from outlast_lab.experiment import Plan

FOUND = {
    "a first claim under way while its object is closed is given back": """\
woven calls, action retry
w5: enqueue(task='t1', kind='a', queue='q1', priority=0, delay=None) to its end
w6: claim(limit=1, queues=('q1',), lease_ms=20000)
w5: close()
w6 goes on
w6 goes on
w6 goes on
w5 ends its call
w6 ends its call
""",
    "a keyed task that is taken at once was stored all the same": """\
woven calls, action retry
w1: enqueue(task='t1', kind='a', queue='q1', priority=0, delay=None, key='k1')
w1 goes on
w5: take(limit=1, queues=('q1',)) to its end
w1 ends its call
""",
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_is_not_found_again(name: str, tmp_path: Path) -> None:
    findings = model.run(Plan(tmp_path, case=FOUND[name]))
    assert findings.cases == 1
    assert findings.violations == []
