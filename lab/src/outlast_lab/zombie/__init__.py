"""Zombies: holders that were stopped past their leases, were replaced, and come back."""

from outlast_lab.experiment import Findings, Plan


def run(plan: Plan) -> Findings:
    """The experiment; its processes import parts of this package and not the whole of it."""
    from outlast_lab.zombie import running

    return running.run(plan)
