"""The controls: Outlast runs on an engine that syncs less than it was told, and does not know it.

If the experiment finds nothing lost here, it would find nothing anywhere. For child processes
only: what is set stays set.
"""

from typing import Any

import apsw

_ANSWERS = {"FULL": 2, "NORMAL": 1}


def set_behind_the_back(synchronous: str) -> None:
    """From now on every connection of the process has this mode, and claims to have another."""

    class Careless(apsw.Connection):
        """A connection that takes one pragma for another."""

        _asked_for = ""

        def pragma(self, name: str, *value: Any, **options: Any) -> Any:
            """Run a pragma; how to sync is not the caller's to choose."""
            if name != "synchronous":
                return super().pragma(name, *value, **options)
            if not value:
                return _ANSWERS[self._asked_for]
            self._asked_for = value[0]
            return super().pragma(name, synchronous)

    vars(apsw)["Connection"] = Careless
