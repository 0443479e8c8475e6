"""The model of a disk: what is synced is safe, all else may be there, gone, or torn."""

from outlast_lab.power.choices import SECTOR_BYTES, Choosing, kept, parse_case
from outlast_lab.power.disk import Image, Player
from outlast_lab.power.recording import (
    CREATE,
    DELETE,
    FOLDER,
    MAKE_FOLDER,
    SYNC,
    TRUNCATE,
    WRITE,
    Event,
    Recording,
)

OLD = {"a.db": b"old!"}


def recorded(*events: Event, base: Image | None = None) -> Recording:
    return Recording("a.db", OLD if base is None else base, [], list(events))


def image(recording: Recording, choice: str, cut: int | None = None) -> Image:
    disk = Player(recording).at(len(recording.events) if cut is None else cut)
    return disk.image(kept(choice, disk.changes))


def all_images(recording: Recording) -> list[Image]:
    choosing = Choosing("life", recording, 1)
    cases = [*choosing.always(), *choosing.others()]
    last = len(recording.events)
    return [image(recording, case.choice, case.cut) for case in cases if case.cut == last]


def test_a_write_is_lost_or_kept_until_its_file_is_synced() -> None:
    written = [Event(WRITE, "a.db", 0, b"new")]
    assert image(recorded(*written), "none") == OLD
    assert image(recorded(*written), "all") == {"a.db": b"new!"}
    assert all_images(recorded(*written, Event(SYNC, "a.db"))) == [{"a.db": b"new!"}] * 2


def test_a_sync_makes_no_other_file_safe() -> None:
    recording = recorded(
        Event(WRITE, "a.db", 0, b"new"), Event(WRITE, "a.db-wal", 0, b"log"),
        Event(SYNC, "a.db-wal"), base={"a.db": b"old", "a.db-wal": b""},
    )  # fmt: skip
    assert image(recording, "none") == {"a.db": b"old", "a.db-wal": b"log"}


def test_writes_reach_the_disk_in_any_order() -> None:
    first, second = Event(WRITE, "a.db", 0, b"1"), Event(WRITE, "a.db", 1, b"2")
    recording = recorded(first, second)
    assert image(recording, "only 1") == image(recording, "drop 0") == {"a.db": b"o2d!"}
    assert image(recording, "prefix 0") == {"a.db": b"1ld!"}


def test_a_write_past_the_end_leaves_zeros_before_it() -> None:
    assert image(recorded(Event(WRITE, "a.db", 6, b"!")), "all") == {"a.db": b"old!\0\0!"}


def test_a_write_is_torn_at_sectors_of_the_file_and_at_bytes() -> None:
    recording = recorded(Event(WRITE, "a.db", 24, b"n" * 1000))
    choices = [case.choice for case in Choosing("life", recording, 1).others()]
    places = {int(one.split()[-1]) for one in choices if one.startswith("tear")}
    assert SECTOR_BYTES - 24 in places
    assert places - {SECTOR_BYTES - 24}, "and at some bytes"
    assert image(recording, "tear 0 at 2") == {"a.db": b"old!" + bytes(20) + b"nn"}
    assert len(image(recording, "junk 0 5")["a.db"]) == 1024
    halves = {image(recording, f"sectors 0 {seed}")["a.db"] for seed in range(20)}
    assert halves == _halves(recording)


def _halves(recording: Recording) -> set[bytes]:
    whole = image(recording, "all")["a.db"]
    return {b"old!", whole[:SECTOR_BYTES], b"old!" + bytes(508) + whole[SECTOR_BYTES:], whole}


def test_the_size_of_a_file_reaches_the_disk_before_its_data() -> None:
    recording = recorded(Event(WRITE, "a.db", 4, b"n" * 8), Event(WRITE, "a.db", 12, b"m" * 4))
    assert image(recording, "zeros 1") == {"a.db": b"old!" + b"n" * 8 + bytes(4)}
    assert image(recording, "zeros 0") == {"a.db": b"old!" + bytes(12)}
    assert {"a.db": b"old!" + bytes(12)} in all_images(recording)


def test_a_truncation_is_undone_unless_it_was_synced() -> None:
    cut_off = [Event(TRUNCATE, "a.db", 1)]
    assert image(recorded(*cut_off), "none") == OLD
    assert image(recorded(*cut_off), "all") == {"a.db": b"o"}
    assert image(recorded(*cut_off, Event(SYNC, "a.db")), "none") == {"a.db": b"o"}


def test_a_new_file_has_no_name_until_its_folder_is_synced() -> None:
    made = [Event(CREATE, "j"), Event(WRITE, "j", 0, b"x"), Event(SYNC, "j")]
    assert image(recorded(*made), "none") == OLD
    assert image(recorded(*made, Event(FOLDER)), "none") == OLD | {"j": b"x"}


def test_a_deleted_file_comes_back_unless_the_folder_was_synced() -> None:
    gone = [Event(DELETE, "a.db")]
    assert image(recorded(*gone), "none") == OLD
    assert image(recorded(*gone), "all") == {}
    assert all_images(recorded(*gone, Event(FOLDER))) == [{}, {}]


def test_without_its_folder_there_is_no_file() -> None:
    """A sync of the folder itself makes its files' names safe, and not its own name."""
    made = [Event(MAKE_FOLDER, at=0), Event(CREATE, "a.db"), Event(FOLDER, at=0)]
    assert image(recorded(*made, base={}), "none") == {}
    assert image(recorded(*made, Event(FOLDER, at=1), base={}), "none") == {"a.db": b""}


def test_a_choice_is_the_same_again() -> None:
    recording = recorded(*(Event(WRITE, "a.db", n, b"n") for n in range(40)))
    choices = [case.choice for case in Choosing("life", recording, 1).others()]
    assert choices == [case.choice for case in Choosing("life", recording, 1).others()]
    assert [image(recording, one) for one in choices] == [image(recording, one) for one in choices]


def test_a_case_has_a_text() -> None:
    assert parse_case("settle/cut 41/drop 38") == ("", ("settle", 41, "drop 38"))
    assert parse_case("normal/in groups/cut 1/all") == ("normal", ("in groups", 1, "all"))
