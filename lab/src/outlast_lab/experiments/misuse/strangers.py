"""Misuse: files that are no store of this Outlast, or that this user or engine cannot keep."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import apsw

from outlast.app.app import Outlast
from outlast.host import mounts
from outlast_lab.experiment import Broken
from outlast_lab.experiments.misuse.scene import Case, NotHere, Scene, listing

NOBODY = 65534


def _made(scene: Scene) -> None:
    """A store that nobody has open any more."""
    Outlast(scene.path).open().close()


def _by_sqlite3(scene: Scene, text: str) -> list[Any]:
    """While no store is open in this process, which is the only time this is allowed."""
    with closing(sqlite3.connect(scene.path, isolation_level=None)) as connection:
        return connection.execute(text).fetchall()


def _refused(scene: Scene, error: str, says: str) -> None:
    uses: list[Callable[[Outlast], object]] = [
        lambda app: app.open(),
        lambda app: app.counts(),
        lambda app: app.enqueue("work"),
    ]
    for use in uses:
        scene.must_raise(error, partial(use, Outlast(scene.path)), says)


def _refused_and_untouched(scene: Scene, error: str, says: str) -> None:
    before = listing(scene.folder)
    _refused(scene, error, says)
    scene.must(listing(scene.folder) == before, "something was changed on the way")


def anothers_database(scene: Scene) -> None:
    """SQLite, but another program's."""
    _by_sqlite3(scene, "CREATE TABLE theirs (x)")
    _refused_and_untouched(scene, "NotAStore", "SQLite file of another program")


def a_folder(scene: Scene) -> None:
    """A folder where the file belongs."""
    scene.path.mkdir()
    _refused_and_untouched(scene, "NotAStore", "work.db is not a file")


def no_database(scene: Scene) -> None:
    """No database at all."""
    scene.path.write_text("dear diary, " * 1000)
    _refused_and_untouched(scene, "NotAStore", "is not an Outlast store")


def newer(scene: Scene) -> None:
    """A store of a later Outlast."""
    _made(scene)
    _by_sqlite3(scene, "INSERT INTO migrations VALUES (99, 'from the future', 'x', 0)")
    _refused(scene, "SchemaNewer", "upgrade Outlast")
    _by_sqlite3(scene, "DELETE FROM migrations WHERE number = 99")


def network(scene: Scene) -> None:
    """The kernel's mount table is said to call it nfs4: the refusal is tried, not the detection."""
    _made(scene)
    vars(mounts)["filesystem_type"] = lambda path: "nfs4"
    _refused_and_untouched(scene, "NetworkFilesystem", "lies on nfs4")
    new = scene.folder / "new.db"
    scene.must_raise("NetworkFilesystem", Outlast(new).open)
    scene.must(not new.exists(), "something was made on the way")


def old_engine(scene: Scene) -> None:
    """SQLite is said to be one that loses commits: the refusal is tried, not the detection."""
    vars(apsw)["sqlite_lib_version"] = lambda: "3.51.2"
    scene.must_raise("EngineTooOld", Outlast(scene.path).open, "3.51.3 or newer")
    scene.must(not scene.path.exists(), "a file was made")


def unwritable(what: str, mode: int) -> Callable[[Scene], None]:
    """A user who may not write, or not even read."""

    def act(scene: Scene) -> None:
        if what == "store":
            _made(scene)
        before = listing(scene.folder)
        modes = _modes(scene)
        target = scene.path if what == "store" else scene.folder
        kept_mode = target.stat().st_mode & 0o777
        target.chmod(mode)
        try:
            status = scene.in_a_process(partial(_as_an_ordinary_user, scene))
        finally:
            target.chmod(kept_mode)
        scene.must(status == 0, "an ordinary user was not refused as it must be")
        scene.must(
            _without_errors(listing(scene.folder)) == _without_errors(before), "changed something"
        )
        scene.must(_modes(scene) == modes, f"changed the modes of files: {modes}, {_modes(scene)}")
        if what == "store":
            scene.must_do(lambda: scene.witness().enqueue("allowed again"))

    return act


def _modes(scene: Scene) -> dict[str, str]:
    """The permissions of the store and all that lies beside it under its name."""
    found = sorted(scene.folder.glob("work.db*"))
    return {file.name: oct(file.stat().st_mode & 0o777) for file in found}


def _without_errors(found: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    return [one for one in found if not one[0].endswith("errors.txt")]


def _as_an_ordinary_user(scene: Scene) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if scene.path.exists() and scene.path.stat().st_uid == os.geteuid():
        scene.must_raise("StoreUnwritable", Outlast(scene.path).counts)
    refused = partial(Outlast(scene.path).enqueue, "work")
    scene.must_raise("StoreUnwritable", refused, str(scene.folder))


def _reachable(act: Callable[[Scene], None]) -> Callable[[Scene], None]:
    """Others must get as far as the store, else the refusal proves nothing."""

    def guarded(scene: Scene) -> None:
        if os.geteuid() == 0:
            for folder in (scene.folder, scene.folder.parent):
                folder.chmod(0o755)
            if scene.in_a_process(partial(_reach, str(scene.folder))) != 0:
                raise NotHere("another user cannot reach the folder of the laboratory")
        act(scene)

    return guarded


def _reach(folder: str) -> None:
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    os.listdir(folder)


def linked_side_file(name: str) -> Callable[[Scene], None]:
    """Somebody put a symbolic link where a side file belongs, to have a file overwritten."""

    def act(scene: Scene) -> None:
        _made(scene)
        victim = scene.folder / "victim"
        victim.write_text("precious")
        link = scene.path.with_name("work.db-outlast") / name
        link.unlink()
        link.symlink_to(victim)
        refused = partial(Outlast(scene.path).enqueue, "work")
        scene.must_raise("StoreUnwritable", refused, "symbolic link")
        scene.must(victim.read_text() == "precious", "the link was followed")
        link.unlink()

    return act


def private_files(umask: int) -> Callable[[Scene], None]:
    """A careless umask does not open the store to others."""

    def act(scene: Scene) -> None:
        os.umask(umask)
        place = scene.folder / "new"
        place.mkdir()
        witness = scene.witness(path=place / "work.db")
        witness.enqueue("t", "x" * 5000)
        witness.claim()
        made = list(place.rglob("*"))
        odd = {
            file.name: oct(file.stat().st_mode & 0o777)
            for file in made
            if file.stat().st_mode & 0o777 != (0o700 if file.is_dir() else 0o600)
        }
        names = {file.name for file in made}
        expected = {"work.db", "work.db-wal", "work.db-shm", "gate", "openers"}
        scene.must(expected <= names, f"made: {names}")
        if odd:
            raise Broken(f"made files that are not private: {odd}")
        witness.close()

    return act


def journal_mode_is_put_back(is_looked_at: bool, scene: Scene) -> None:
    """Another program changed it while nobody served the store."""
    with scene.neighbour() as other:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue("t"))
        witness.app.close()
        changed = other.sql("PRAGMA journal_mode = DELETE")
        scene.must(changed == [["delete"]], f"the foreign tool could not change it: {changed}")
        if is_looked_at:
            scene.must(other.tell("status", "t") == "pending", "nobody can look")
        scene.must_do(lambda: witness.enqueue("u"))
        scene.must(other.sql("PRAGMA journal_mode") == [["wal"]], "it was not put back")


def journal_mode_in_use(scene: Scene) -> None:
    """Another program tries while a process has the store open."""
    with scene.neighbour() as other:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue("t"))
        said = other.sql("PRAGMA journal_mode = DELETE")
        scene.must("locked" in str(said), f"the mode of a store in use could be changed: {said}")
        scene.must_do(lambda: witness.enqueue("u"))


def journal_mode_is_kept(scene: Scene) -> None:
    """Another program keeps the mode it chose."""
    with scene.neighbour() as other:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue("t"))
        witness.app.close()
        texts = ["PRAGMA journal_mode = DELETE", "BEGIN", "SELECT count(*) FROM tasks"]
        other.tell("sql and stay", texts)
        says = "journal mode delete and another program keeps it"
        scene.must_refuse("StoreError", lambda: witness.enqueue("lost"), says)
        other.kill()
        scene.must_do(lambda: witness.enqueue("u"))


def cases() -> Iterator[tuple[str, Case]]:
    """All of them by name."""
    alone = "is refused and left exactly as it is"
    yield "stranger: another program's database", Case(alone, anothers_database, "nothing")
    yield "stranger: a folder", Case(alone, a_folder, "nothing")
    yield "stranger: no database", Case(alone, no_database, "nothing")
    yield "stranger: a store of a newer Outlast", Case("is refused by SchemaNewer", newer)
    yield (
        "stranger: a network file system, by its name",
        Case(
            "is refused by NetworkFilesystem before anything is made, once it is known for one"
            " (the type is made up here: the refusal is tried, not the detection)",
            network,
            "nothing",
        ),
    )
    yield (
        "stranger: an engine that loses commits",
        Case(
            "is refused by EngineTooOld before anything is made, once it is known for one"
            " (the version is made up here: the refusal is tried, not the detection)",
            old_engine,
            "nothing",
        ),
    )
    sentence = "is refused by StoreUnwritable, and nothing is changed"
    for name, what, mode in (
        ("a file that cannot be read", "store", 0o000),
        ("a read-only file", "store", 0o444),
        ("a read-only folder", "folder", 0o555),
    ):
        judged: Any = "all" if what == "store" else "nothing"
        yield f"stranger: {name}", Case(sentence, _reachable(unwritable(what, mode)), judged)
    for name in ("openers", "gate"):
        yield (
            f"stranger: {name} is a symbolic link",
            Case("is refused, and the link is not followed", linked_side_file(name)),
        )
    for umask in (0o000, 0o022, 0o077):
        yield (
            f"stranger: umask {umask:03o}",
            Case("makes everything for its owner alone", private_files(umask), "nothing"),
        )
    for name, is_looked_at in (("at rest", False), ("while somebody looks", True)):
        put_back = partial(journal_mode_is_put_back, is_looked_at)
        yield f"journal mode: changed {name}", Case("is put back", put_back)
    yield "journal mode: changed in use", Case("cannot be", journal_mode_in_use)
    yield (
        "journal mode: kept by another program",
        Case("is refused until the other lets go", journal_mode_is_kept),
    )
