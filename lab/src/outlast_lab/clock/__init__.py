"""Clocks that are wrong: set forward and back, namespaced, standing still, slept through."""

from outlast_lab.experiment import Findings, Plan


def run(plan: Plan) -> Findings:
    """The experiment; its processes import parts of this package and not the whole of it."""
    from outlast_lab.clock import running

    return running.run(plan)
