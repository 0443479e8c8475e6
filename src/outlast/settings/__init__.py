"""Every knob of the engine in one frozen object, from arguments, the environment and a file."""

from typing import TYPE_CHECKING, Any

from outlast.settings.heartbeat import Heartbeat
from outlast.settings.model import Settings

if TYPE_CHECKING:
    from outlast.settings.loading import Loaded, load

__all__ = ["Heartbeat", "Loaded", "Settings", "load"]


def __getattr__(name: str) -> Any:
    """Reading files and the environment is imported only by who does it."""
    if name in ("Loaded", "load"):
        from outlast.settings import loading

        return getattr(loading, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
