"""Somebody who may write beside the database plants folders and links where ours belong: the store
is refused in one sentence, or what is not ours in them is left alone; nothing outside is touched.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import Outlast, Settings, StoreUnwritable
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from tests.support.children import Child

STRANGER = 12_345
NOBODY = 65_534
FOLDERS = ["workers", "wake", "subscribers"]
# Of the shapes that our own files have, so that only the folder they lie in protects them.
LURES = [
    "a" * 32 + ".lock",
    "." + "b" * 32 + ".new",
    "c" * 32 + ".session",
    "precious",
    "openers",
    "gate",
]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def folder(database: Path) -> SideFolder:
    with Outlast(database) as app:
        app.enqueue("k")
        app.claim("w")
    return SideFolder(database)


class Elsewhere:
    """A folder of somebody's with files in it, and a look at whether they are as they were."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        for name in LURES:
            (path / name).write_bytes(b"precious")
        self._before = self._seen()

    def _seen(self) -> list[tuple[str, bytes, int, int, int]]:
        files = sorted(self.path.iterdir())
        stats = [(file, file.lstat()) for file in [self.path, *files]]
        return [
            (file.name, b"" if file.is_dir() else file.read_bytes(), *found[0:1], *found[4:6])
            for file, found in stats
        ]

    def is_as_it_was(self) -> bool:
        return self._seen() == self._before


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    return Elsewhere(tmp_path / "elsewhere")


def refused(database: Path, planted: Path) -> None:
    """Whoever wants to write is told in one sentence what is wrong, and where."""
    for act in (Outlast.open, Outlast.migrate):
        with pytest.raises(StoreUnwritable) as raised:
            act(Outlast(database))
        said = str(raised.value)
        assert said.startswith(f"{planted} ")
        assert "find out who put it there" in said
        assert "\n" not in said


def replace_by_link(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_link_in_place_of_an_inner_folder_is_not_followed(
    folder: SideFolder, elsewhere: Elsewhere, name: str
) -> None:
    """Guards against the sweep of lock files that emptied the folder behind such a link."""
    replace_by_link(folder.path / name, elsewhere.path)
    refused(folder.database, folder.path / name)
    assert elsewhere.is_as_it_was()


@pytest.mark.parametrize("has_database", [True, False], ids=["old", "new"])
def test_a_link_in_place_of_the_side_folder_is_not_followed(
    database: Path, elsewhere: Elsewhere, has_database: bool
) -> None:
    side = SideFolder(database)
    if has_database:
        with Outlast(database) as app:
            app.enqueue("k")
    replace_by_link(side.path, elsewhere.path)
    refused(database, side.path)
    if has_database:
        with pytest.raises(StoreUnwritable, match="symbolic link"):
            Outlast(database).counts()
    assert elsewhere.is_as_it_was()
    assert database.exists() == has_database


@pytest.mark.parametrize(
    ("has_workspace", "inner"),
    [(True, ""), (True, "sessions"), (False, "sessions")],
    ids=["folder in a workspace", "sessions in a workspace", "sessions"],
)
def test_a_link_on_the_way_to_the_markers_is_not_followed_and_blocks_no_start(
    folder: SideFolder,
    elsewhere: Elsewhere,
    caplog: pytest.LogCaptureFixture,
    has_workspace: bool,
    inner: str,
) -> None:
    """Markers inform and never decide; a link in place of the side folder itself is refused."""
    workspace = elsewhere.path.parent / "workspace" if has_workspace else folder.path.parent
    planted = workspace / folder.path.name / inner
    planted.parent.mkdir(parents=True, exist_ok=True)
    replace_by_link(planted, elsewhere.path)
    with Outlast(folder.database, settings=Settings(workspace=str(workspace))) as app:
        app.enqueue("k")
    assert "the session marker" in caplog.text
    assert elsewhere.is_as_it_was()


@pytest.mark.parametrize("name", ["openers", "gate"])
@pytest.mark.parametrize(
    "plant",
    [
        lambda file, victim: file.symlink_to(victim),
        lambda file, victim: os.link(victim, file),
        lambda file, victim: os.mkfifo(file),
        lambda file, victim: file.mkdir(),
        pytest.param(
            lambda file, victim: os.mknod(file, 0o020666, os.makedev(1, 3)), marks=needs_root
        ),
    ],
    ids=["link", "hard link", "FIFO", "folder", "device"],
)
def test_what_is_no_plain_file_of_ours_is_not_opened(
    folder: SideFolder, tmp_path: Path, name: str, plant: Callable[[Path, Path], None]
) -> None:
    """Guards, among others, what the lock of the openers would cut off or write into."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    file = folder.path / name
    file.unlink()
    plant(file, victim)
    planted = file.lstat()
    refused(folder.database, file)
    with (
        pytest.raises(StoreUnwritable),
        Outlast(folder.database, settings=Settings(exclusive=True)) as app,
    ):
        app.enqueue("k")
    assert victim.read_bytes() == b"precious"
    assert file.lstat()[:3] == planted[:3]


@pytest.mark.timeout(60)
def test_nobody_follows_or_waits_for_what_is_planted_among_lock_files_and_markers(
    folder: SideFolder, elsewhere: Elsewhere
) -> None:
    """A marker that nobody can read is taken away, but never what it leads to."""
    for place, end in (("workers", ".lock"), ("sessions", ".session")):
        link, fifo, second_name = (folder.path / place / f"{digit * 32}{end}" for digit in "123")
        link.symlink_to(elsewhere.path / LURES[0])
        os.mkfifo(fifo)
        os.link(elsewhere.path / "precious", second_name)
    with Outlast(folder.database) as app:
        assert app.enqueue("k", id="served").id == "served"
        assert app.claim("w")
    assert elsewhere.is_as_it_was()
    assert len(os.listdir(folder.workers)) == 3
    assert os.listdir(folder.path / "sessions") == []


@pytest.mark.parametrize("name", [*FOLDERS, "sessions"])
def test_foreign_names_in_our_folders_are_left_alone(folder: SideFolder, name: str) -> None:
    place = folder.path / name
    place.mkdir(exist_ok=True)
    foreign = [place / one for one in ("notes.txt", "mine.lock", "old.session", "w-1", "A" * 32)]
    for file in foreign:
        file.write_text("precious")
    (place / "inner").mkdir()
    with Outlast(folder.database) as app:
        assert app.enqueue("k", id="served").id == "served"
        assert app.claim("w")
    assert [file.read_text() for file in foreign] == ["precious"] * len(foreign)
    assert (place / "inner").is_dir()


def test_a_lock_file_left_by_a_crash_is_still_swept(folder: SideFolder) -> None:
    left = [folder.workers / name for name in LURES[:2]]
    for file in left:
        file.touch()
    with Outlast(folder.database) as app:
        app.enqueue("k")
    assert not any(file.exists() for file in left)


@needs_root
@pytest.mark.parametrize("name", ["", *FOLDERS])
def test_a_folder_of_another_owner_is_refused(folder: SideFolder, name: str) -> None:
    planted = folder.path / name
    planted.mkdir(exist_ok=True)
    lures = [planted / one for one in LURES[:4]]
    for file in lures:
        file.write_bytes(b"precious")
    os.chown(planted, STRANGER, STRANGER)
    refused(folder.database, planted)
    assert [file.read_bytes() for file in lures] == [b"precious"] * len(lures)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder like /tmp: everybody makes files in it, and removes but his own."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o1777)
        yield path


def _opens_as(uid: int, path: str, *kinds: str) -> None:
    import os

    from outlast import Outlast, OutlastError
    from tests.support.childside import say

    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    try:
        with Outlast(path) as app:
            say([app.enqueue(kind).kind for kind in kinds])
    except OutlastError as error:
        say([type(error).__name__, str(error)])


@needs_root
def test_a_folder_planted_before_there_is_a_database_is_refused(shared: Path) -> None:
    """Guards the first user of a store in a shared folder from whoever was there before."""
    side = SideFolder(shared / "work.db")
    side.workers.mkdir(parents=True)
    lure = side.workers / LURES[0]
    lure.write_bytes(b"precious")
    for file in (side.path, side.workers, lure):
        os.chown(file, STRANGER, STRANGER)
    for path in (side.path, side.workers):
        path.chmod(0o777)
    refused(side.database, side.path)
    with Child(_opens_as, NOBODY, side.database, "k") as child:
        name, said = child.hear()
    assert name == "StoreUnwritable"
    assert said.startswith(f"{side.path} belongs to user {STRANGER} and not to user {NOBODY}")
    assert lure.read_bytes() == b"precious"
    assert not side.database.exists()
    assert sorted(os.listdir(side.path)) == ["workers"]


@needs_root
def test_a_link_planted_by_another_user_empties_nobodys_folder(shared: Path) -> None:
    victims = Elsewhere(shared / "victims")
    side = SideFolder(shared / "work.db")
    with Child(_opens_as, STRANGER, side.database, "k") as child:
        assert child.hear() == ["k"]
    replace_by_link(side.workers, victims.path)
    os.chown(side.workers, STRANGER, STRANGER, follow_symlinks=False)
    refused(side.database, side.workers)
    assert victims.is_as_it_was()


@needs_root
def test_root_makes_the_side_folder_of_anothers_store_for_its_owner(shared: Path) -> None:
    side = SideFolder(shared / "work.db")
    with Child(_opens_as, STRANGER, side.database, "k") as child:
        assert child.hear() == ["k"]
    shutil.rmtree(side.path)
    with Outlast(side.database) as app:
        app.enqueue("by root")
    with Child(_opens_as, STRANGER, side.database, "k", "l") as child:
        assert child.hear() == ["k", "l"]
    made = [side.path, *side.path.rglob("*")]
    assert {file.lstat().st_uid for file in made} == {STRANGER}


@needs_root
def test_root_goes_on_where_it_died_before_it_gave_a_folder_away(shared: Path) -> None:
    side = SideFolder(shared / "work.db")
    with Child(_opens_as, STRANGER, side.database, "k") as child:
        assert child.hear() == ["k"]
    shutil.rmtree(side.path)
    side.path.mkdir(mode=0o700)
    with Outlast(side.database) as app:
        app.enqueue("by root")
    with Child(_opens_as, STRANGER, side.database, "k") as child:
        assert child.hear() == ["k"]


@needs_root
def test_who_does_not_own_the_database_makes_no_folder_that_its_owner_would_refuse(
    shared: Path,
) -> None:
    side = SideFolder(shared / "work.db")
    with Outlast(side.database) as app:
        app.enqueue("k")
    shutil.rmtree(side.path)
    for file in shared.iterdir():
        file.chmod(0o666)
    with Child(_opens_as, STRANGER, side.database, "k") as child:
        name, said = child.hear()
    assert name == "StoreUnwritable"
    assert "is to be made by user 0, who owns the database, or by root" in said
    assert not side.path.exists()
    with Outlast(side.database) as app:
        app.enqueue("k")
    with Child(_opens_as, STRANGER, side.database, "k") as child:
        assert child.hear() == ["k"]


def test_a_folder_swapped_for_a_link_while_the_store_is_open_is_not_followed(
    database: Path, elsewhere: Elsewhere
) -> None:
    side = SideFolder(database)
    with Outlast(database) as app:
        app.enqueue("k")
        for name in ("workers", "sessions", "wake"):
            (side.path / name).rename(side.path / f"{name}-aside")
            (side.path / name).symlink_to(elsewhere.path)
        app.enqueue("k")
        with pytest.raises(StoreUnwritable, match="symbolic link"):
            app.claim("w")
        app.workers()
    assert elsewhere.is_as_it_was()
