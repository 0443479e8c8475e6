"""Before a process forks for every case: what each fork would have to do again is done once."""

import gc

from outlast.app.app import backend


def ready_to_fork() -> None:
    """Import the engine and leave what is there to its forks as it is; nothing is opened."""
    backend()
    # A collector that went through what was inherited would copy it page by page.
    gc.freeze()
