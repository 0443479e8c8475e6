"""The recovery settings of a program, as it leaves them in the store for others to go by.

An operator's command knows nothing of what the program was told in its code. It would put back what
the program holds for approval; so it goes by what the program left, unless it is told otherwise.
"""

from collections.abc import Collection
from dataclasses import replace

from outlast.errors import InvalidInput
from outlast.settings.model import Settings

NAMES = ("recovery_enabled", "recovery_mode", "recovery_action", "recovery_action_by_kind")


def kept(settings: Settings) -> str:
    """What is left in the store."""
    values = {name: getattr(settings, name) for name in NAMES}
    values["recovery_action_by_kind"] = dict(settings.recovery_action_by_kind)
    # Only who opens a store comes here.
    import json

    return json.dumps(values, sort_keys=True)


def obeying(settings: Settings, given: Collection[str], left: str | None) -> Settings:
    """These settings with the recovery that was left, unless one of its own was given."""
    if left is None or not set(NAMES).isdisjoint(given):
        return settings
    import json

    try:
        return replace(settings, **{name: json.loads(left)[name] for name in NAMES})
    except (ValueError, KeyError, TypeError, InvalidInput):
        return settings
