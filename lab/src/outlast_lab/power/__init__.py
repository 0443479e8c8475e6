"""Power fails: at each point of everything Outlast does to its files, in every legal way.

A recorder between SQLite and the file system writes down what happens to each file, together with
what callers are told. From that the disks are rebuilt that a power cut could have left at each
point: what was synced is there, all else may be lost, kept, torn or out of order. Each is read by
a foreign tool and judged; some are opened by Outlast, and power fails again while it opens them.
"""

from dataclasses import replace

from outlast_lab.experiment import Findings, Plan
from outlast_lab.power.own_lives import ALL_LIVES


def run(plan: Plan) -> Findings:
    """Record every life, and judge its disks; a case may also be the name of one life."""
    from outlast_lab.power.running import CASES_OF_A_LIFE, Run

    if plan.case in ALL_LIVES:
        cases = plan.cases or CASES_OF_A_LIFE
        return Run(replace(plan, case=None, cases=cases), [plan.case], controls=()).all()
    return Run(plan, list(ALL_LIVES)).all()
