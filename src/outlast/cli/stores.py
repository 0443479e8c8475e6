"""Which store a command speaks to, and how it is opened: to look, to change, or to be made."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from outlast.cli.verbs import Common
from outlast.errors import StoreNotFound

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.settings import Loaded

_NO_STORE = (
    "no store is chosen; give --store PATH, set OUTLAST_STORE, or name it in the settings file"
)


@contextmanager
def opened(common: Common, *, may_create: bool = False) -> Iterator["Outlast"]:
    """The chosen store, left in order at the end; made if it is missing only where that is meant.

    What only looks opens it to look, what changes something opens it to serve: the verbs decide.
    """
    app = chosen(common)
    if not may_create and not os.path.lexists(app.path):
        raise StoreNotFound(f"there is no store at {app.path}; enqueue something first")
    try:
        yield app
    finally:
        app.close()


def chosen(common: Common) -> "Outlast":
    """The store by --store, by OUTLAST_STORE, or by the settings file; nothing is opened yet."""
    from outlast import Outlast

    found = loaded(common)
    target = common.store or found.store
    if not target:
        raise click.UsageError(_NO_STORE)
    return Outlast(target, settings=found.settings)


def loaded(common: Common) -> "Loaded":
    """The settings of this call, and the store that was named beside them."""
    from outlast.settings import load

    return load(common.settings)
