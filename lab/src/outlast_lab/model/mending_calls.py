"""The calls of the exact simulation that put back what the dead and the silent hold."""

from collections.abc import Callable

from outlast_lab.model.exact import ExactWorld, Outcome


def heal(world: ExactWorld, app: str) -> Outcome:
    """How many are back and how many failed; of an opening by this call too."""

    def healed() -> tuple[int, int]:
        stats = world.apps[app].heal()
        return stats.entries_reclaimed, stats.entries_failed

    return _counted(world, app, healed)


def recover(world: ExactWorld, app: str) -> Outcome:
    """The same on record; if the call opens the store, the opening's run is the answer."""

    def recovered() -> tuple[int, int]:
        report = world.apps[app].recover()
        assert report == world.apps[app].last_report(), "what is answered is what is on record"
        return report.tasks_put_back, report.tasks_failed

    return _counted(world, app, recovered)


def _counted(world: ExactWorld, app: str, really: Callable[[], tuple[int, int]]) -> Outcome:
    is_opening = app not in world.model.sessions

    def expected() -> tuple[int, int]:
        opening = world.model.opening if is_opening else (0, 0)
        back, failed = world.model.heal()
        return opening[0] + back, opening[1] + failed

    return world.serving(app, really, expected)


def reclaim_stale(world: ExactWorld, app: str, silent: float, force: bool) -> Outcome:
    """By hand, of those that were silent for so many seconds; of an opening by this call too."""
    is_opening = app not in world.model.sessions

    def expected() -> int:
        opening = world.model.opening if is_opening else (0, 0)
        return sum(opening) + world.model.reclaim(round(silent * 1000), force)

    return world.serving(app, lambda: world.apps[app].reclaim_stale(silent, force), expected)
