"""Which store a command speaks to, and how it is opened: to look, to change, or to be made."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from outlast.cli.command import Common
from outlast.errors import OutlastError, StoreNotFound

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.settings import Loaded, Settings

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
    return Outlast(target, settings=_obeying(target, found), guest=True)


def _obeying(target: str, found: "Loaded") -> "Settings":
    """The recovery settings of the program whose store it is, unless this call names its own."""
    from outlast import Outlast
    from outlast.settings.recovering import obeying

    # What there is to say about the store, the command says itself.
    silent = logging.getLogger("outlast.glance")
    silent.disabled = True
    look = Outlast(target, settings=found.settings, logger=silent, guest=True)
    if not os.path.lexists(look.path):
        return found.settings
    try:
        return obeying(found.settings, found.given, look.recovery_settings())
    except OutlastError:
        # Whatever is wrong with it is told by the command itself.
        return found.settings
    finally:
        look.close()


def loaded(common: Common) -> "Loaded":
    """The settings of this call, and the store that was named beside them."""
    from outlast.settings import load

    return load(common.settings)
