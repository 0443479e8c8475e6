"""An Outlast of tomorrow in this process: it knows one migration more than the one that ships."""

import pytest

from outlast.store.sqlite import migrate
from outlast_lab.record.newer import NEXT

SHIPPED = migrate.all_migrations()


def know_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every store of today an older one, which lacks the migration NEXT."""
    monkeypatch.setattr(migrate, "all_migrations", lambda: (*SHIPPED, NEXT))
