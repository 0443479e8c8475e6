"""The events of locks as another program reads them."""

import json
from pathlib import Path

from tests.support.foreign import foreign_rows

Told = tuple[str, str, str]


def told(database: Path) -> list[Told]:
    """Kind, lock and holder of each event, in order."""
    query = "SELECT kind, data, worker_id FROM events WHERE kind LIKE 'lock.%' ORDER BY pos"
    return [
        (kind, json.loads(data)["lock"], worker)
        for kind, data, worker in foreign_rows(database, query)
    ]
