"""The settings of an Outlast object that was given none: what the environment says, if anything."""

import os

from outlast.settings.keys import PREFIX
from outlast.settings.model import Settings


def ambient_settings() -> Settings:
    """OUTLAST_… variables and the file that OUTLAST_SETTINGS names; no other file is looked for.

    A file that merely lies in the current folder is the command line's: a program must not work
    differently because of where it was started.
    """
    if not any(name.startswith(PREFIX) for name in os.environ):
        return Settings()
    from outlast.settings.loading import load

    return load(search=False).settings
