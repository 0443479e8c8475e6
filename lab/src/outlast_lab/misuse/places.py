"""Misuse: one store under several names, and several stores that think they are one."""

import os
import shutil
from collections.abc import Iterator

from outlast.app.app import Outlast
from outlast_lab.misuse.scene import Case, NotHere, Scene
from outlast_lab.witness import Witness


def hard_link(scene: Scene) -> None:
    """Two names of one file have two logs, which damage it."""
    Outlast(scene.path).open().close()
    second = scene.folder / "second.db"
    os.link(scene.path, second)
    for path in (scene.path, second):
        scene.must_raise("NotAStore", Outlast(path).open)
    second.unlink()
    with Outlast(scene.path):
        pass


def hard_link_in_use(scene: Scene) -> None:
    """The second name is given while the store is open."""
    with scene.neighbour(path=scene.folder / "second.db") as other:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue("t"))
        os.link(scene.path, scene.folder / "second.db")
        said = other.tell("enqueue", "by the second name")
        scene.must(said is None, f"a store could be opened by a second name: {said}")
        os.unlink(scene.folder / "second.db")
        scene.must_do(lambda: witness.enqueue("u"))


def symbolic_link(scene: Scene) -> None:
    """One store by a link and by its name, in one process and in two."""
    linked = scene.folder / "linked" / "elsewhere.db"
    linked.parent.mkdir()
    with scene.neighbour() as other:
        Outlast(scene.path).open().close()
        linked.symlink_to(scene.path)
        by_name, by_link = scene.witness("by name"), scene.witness("by link", linked)
        scene.must_do(lambda: by_name.enqueue("t"))
        (lease,) = scene.must_do(by_link.claim)
        scene.must(scene.must_do(by_name.claim) == [], "a held task was handed out again")
        scene.must(other.tell("claim") == [], "a held task was handed out to another process")
        scene.must_do(lambda: by_link.complete(lease, "done"))
        scene.must(other.tell("status", "t") == "completed", "the other does not see it")
        made = sorted(file.name for file in linked.parent.iterdir())
        scene.must(made == ["elsewhere.db"], f"files were made beside the link: {made}")
        by_link.close()
        by_name.close()


def changed_folder(scene: Scene) -> None:
    """A relative path means what it meant when the object was made."""
    os.chdir(scene.folder)
    witness = Witness(Outlast("work.db"), "w", scene.write)
    elsewhere = scene.folder / "elsewhere"
    elsewhere.mkdir()
    os.chdir(elsewhere)
    scene.must_do(lambda: witness.enqueue("t"))
    scene.must(scene.path.exists(), "the store was made elsewhere")
    scene.must(list(elsewhere.iterdir()) == [], "something was made elsewhere")
    witness.close()


def bind_mount(scene: Scene) -> None:
    """One folder at two places: the same files under two paths, in two processes."""
    with scene.neighbour() as other:
        place = scene.folder / "second place"
        place.mkdir()
        home = scene.folder / "home"
        home.mkdir()
        said = other.tell("in another namespace", str(home), str(place))
        if said is not None:
            raise NotHere(f"bind mounts are not allowed ({said})")
        witness = scene.witness(path=home / "work.db")
        scene.must_do(lambda: witness.enqueue("t"))
        (lease,) = scene.must_do(witness.claim)
        scene.must(other.tell("heal") == 0, "a task of a living process was taken back")
        scene.must(other.tell("claim") == [], "a held task was handed out again")
        scene.must(other.tell("enqueue", "theirs") == "theirs", "the other place cannot be used")
        scene.must_do(lambda: witness.complete(lease, "done"))
        scene.must(other.tell("claim") == ["theirs"], "a free task was not handed out")
        scene.must(other.tell("complete", "theirs"), "it cannot be completed there")
        witness.close()


def full_copy(scene: Scene) -> None:
    """A copy of everything beside the original, both in use: they do not touch each other."""
    with scene.neighbour("original") as original:
        original.tell("enqueue", "held")
        original.tell("enqueue", "waiting")
        scene.must(original.tell("claim") == ["held"], "nothing was handed out")
        copy = scene.folder / "copy"
        copy.mkdir()
        for name in ("work.db", "work.db-wal"):
            shutil.copy(scene.folder / name, copy / name)
        shutil.copytree(scene.folder / "work.db-outlast", copy / "work.db-outlast", symlinks=True,
                        ignore=shutil.ignore_patterns("wake"))  # fmt: skip
        (copy / "records").mkdir()
        app = Outlast(copy / "work.db")
        scene.must(app.enqueue("work", id="new").id == "new", "the copy cannot be used")
        claimed = app.claim("w", limit=5)
        names = sorted(lease.task_id for lease in claimed)
        scene.must("held" not in names, "what a living process holds was handed out in the copy")
        app.complete_many([(lease, "in the copy") for lease in claimed])
        scene.must(original.tell("enqueue", "new") == "new", "the original misses its own id")
        scene.must(original.tell("status", "waiting") == "pending", "the copy acts on the original")
        scene.must(original.tell("complete", "held"), "the original lost its lease to the copy")
        scene.must(app.get("held").status == "running", "the original acts on the copy")
        app.close()


def cases() -> Iterator[tuple[str, Case]]:
    """All of them by name."""
    yield "place: a hard link", Case("is refused by NotAStore under both names", hard_link)
    yield (
        "place: a hard link to a store in use",
        Case("is refused, and who has it open goes on", hard_link_in_use),
    )
    yield "place: a symbolic link", Case("is the same store, with one holder", symbolic_link)
    yield (
        "place: a relative path, and then another folder",
        Case("means the path of the beginning", changed_folder),
    )
    yield "place: a bind mount", Case("is the same store, with one holder", bind_mount, "nothing")
    yield (
        "place: a full copy beside the original",
        Case("is a store of its own; neither touches the other", full_copy),
    )
