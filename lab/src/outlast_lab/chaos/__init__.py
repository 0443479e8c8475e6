"""Chaos: many processes work on one store while they are killed, stopped, continued, restarted."""

from outlast_lab.experiment import Findings, Plan


def run(plan: Plan) -> Findings:
    """The experiment; its processes import parts of this package and not the whole of it."""
    from outlast_lab.chaos import running

    return running.run(plan)
