"""What the kernel tells of folders: every name that changes, and nothing else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.host import kernel
from outlast.store.sqlite.wakeups.folder_watch import FolderWatch


def _make(folder: Path) -> None:
    (folder / "new").touch()


def _remove(folder: Path) -> None:
    (folder / "old").unlink()


def _move_in(folder: Path) -> None:
    (folder.parent / "elsewhere").rename(folder / "from-elsewhere")


def _move_out(folder: Path) -> None:
    (folder / "old").rename(folder.parent / "gone")


def _move_the_folder(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    (tmp_path / "elsewhere").touch()
    made = [tmp_path / "one", tmp_path / "two"]
    for folder in made:
        folder.mkdir()
        (folder / "old").touch()
    return made


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("change", [_make, _remove, _move_in, _move_out, _move_the_folder])
def test_every_changed_name_is_told_of(
    folders: list[Path], change: Callable[[Path], None], which: int
) -> None:
    """Guards the check of the files: what is not told of would be acknowledged into nothing."""
    watch = FolderWatch(*map(str, folders))
    assert not watch.is_quiet(), "nobody listens yet"
    watch.listen()
    assert watch.is_quiet()
    change(folders[which])
    assert not watch.is_quiet()
    watch.listen()
    assert watch.is_quiet()
    watch.end()
    assert not watch.is_quiet()


def test_a_write_to_a_file_is_no_news(folders: list[Path]) -> None:
    """Guards the speed of a store in use, which writes to its files all the time."""
    watch = FolderWatch(*map(str, folders))
    watch.listen()
    (folders[0] / "old").write_text("new content", encoding="utf-8")
    assert watch.is_quiet()


def test_without_the_kernels_word_it_is_never_quiet(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards systems without such watches, and users who have no more of them."""
    refusals = list[str]()

    def refuse(_: object) -> int:
        refusals.append("no more")
        raise OSError(24, "no more watches")

    monkeypatch.setattr(kernel, "watch_names", refuse)
    watch = FolderWatch(str(folders[0]))
    for _ in range(3):
        watch.listen()
        assert not watch.is_quiet()
    assert len(refusals) == 1, "who is refused does not ask at each commit"


def test_a_watch_that_is_forgotten_is_given_back(folders: list[Path]) -> None:
    """Guards the few watches that a user has."""
    before = set(os.listdir("/proc/self/fd"))
    watch = FolderWatch(str(folders[0]))
    watch.listen()
    del watch
    assert set(os.listdir("/proc/self/fd")) <= before
