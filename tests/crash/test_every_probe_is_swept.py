"""A probe that no life of the sweep is killed at guards nothing, so the build refuses it."""

import pytest

from outlast_lab.record.recovery_scenarios import ALL_LIVES
from tests.crash.probes import all_probes, probes_in

SWEPT = {probe for life in ALL_LIVES.values() for probe in life.probes}


def test_every_probe_in_the_source_is_swept() -> None:
    assert all_probes() - SWEPT == set()


def test_every_probe_that_is_swept_is_in_the_source() -> None:
    assert SWEPT - all_probes() == set()


def test_probes_are_found_in_enqueue_claim_settle_heal_flush_and_migrate() -> None:
    """So that a scan that finds nothing cannot pass for a sweep that misses nothing."""
    rooms = {probe.partition(".")[0] for probe in all_probes()}
    assert rooms >= {"enqueue", "claim", "settle", "heal", "flush", "migrate"}


def test_literal_probes_and_the_contexts_of_writes_are_found() -> None:
    text = """
probe("a.b")
_probe.probe(f"{context}.begun")
self._access.write("claim", operation)
access.submit("settle", operation)
self._write("heal", operation)
Operation(self._access.queue, "enqueue", operation)
Operation(self.queue, context, operation)
Operation(None, "flushing", operation, is_exclusive=True)
tx.run("a_statement")
os.write(descriptor, text)
"""
    assert probes_in(text) == ({"a.b"}, {".begun"}, {"claim", "settle", "heal", "enqueue"})


@pytest.mark.parametrize(
    "text", ["probe(name)", "access.write(name + '!', f)", "Operation(queue, name + '!', f)"]
)
def test_a_name_that_cannot_be_read_from_the_source_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be found by its name"):
        probes_in(text)
