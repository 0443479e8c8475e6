"""Whoever owns the side folder swaps what is made in it, while another user, root perhaps, makes
it: nothing but the new file itself may change its mode or its owner."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.store.sqlite.side_folder.side_folder import SideFolder
from tests.store.sqlite.wakeups.waking import make_folder

Make = Callable[[SideFolder], object]


@pytest.fixture
def folder(database: Path) -> SideFolder:
    folder = make_folder(database)
    database.chmod(0o666)
    return folder


@pytest.mark.parametrize(
    ("place", "make"),
    [
        ("workers", lambda folder: os.close(folder.open_file(folder.workers / "new"))),
        ("workers", lambda folder: folder.make_folder(folder.workers / "new")),
    ],
    ids=["file", "folder"],
)
def test_what_is_swapped_for_a_link_before_it_has_its_mode_changes_nobody_elses(
    folder: SideFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, make: Make
) -> None:
    """Guards against a user who has root open a store of his, and change the mode of any file."""
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    real = SideFolder._match_database
    swapped: list[Path] = []

    def swap_and_match(self: SideFolder, new: int | str, *, is_folder: bool = False) -> None:
        (made,) = (self.path / place).iterdir()
        made.rename(tmp_path / "aside")
        made.symlink_to(secret)
        swapped.append(made)
        real(self, new, is_folder=is_folder)

    monkeypatch.setattr(SideFolder, "_match_database", swap_and_match)
    make(folder)
    assert len(swapped) == 1
    assert stat.S_IMODE(secret.stat().st_mode) == 0o700


def test_a_side_file_belongs_to_the_owner_of_the_database(folder: SideFolder) -> None:
    """Guards the others' access: root makes files for others, anybody else his own."""
    owner = (12_345, 23_456) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    for file in (folder.database, folder.path, folder.workers):
        os.chown(file, *owner)
    os.close(folder.open_file(folder.workers / "new"))
    found = (folder.workers / "new").lstat()
    assert (found.st_uid, found.st_gid) == owner
    assert stat.S_IMODE(found.st_mode) == 0o666
    assert os.listdir(folder.workers) == ["new"]


def test_a_side_file_made_by_another_in_the_same_moment_is_left_as_it_is(
    folder: SideFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards a file that was linked in under the name of a new one from being taken for new."""
    stranger = folder.workers / "new"
    real = os.open

    def open_late(path: Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            os.close(real(stranger, os.O_CREAT | os.O_WRONLY, 0o640))
        return real(path, flags, mode, dir_fd=dir_fd)

    with monkeypatch.context() as struck:
        struck.setattr(os, "open", open_late)
        os.close(folder.open_file(stranger))
    assert stat.S_IMODE(stranger.stat().st_mode) == 0o640
