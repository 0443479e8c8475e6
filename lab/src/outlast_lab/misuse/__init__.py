"""Misuse: what programs and people do to a store that nobody should, and what must happen then."""

from outlast_lab.experiment import Findings, Plan


def run(plan: Plan) -> Findings:
    """The experiment; its processes import parts of this package and not the whole of it."""
    from outlast_lab.misuse import running

    return running.run(plan)
