"""One simulation from its first step to its last, drawn by a seed or told by a script."""

import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from outlast.app.app import Outlast
from outlast_lab.model.drawing import PROFILES, Drawing
from outlast_lab.model.exact import ExactWorld
from outlast_lab.model.script import ARROW, Broken, Script, Step
from outlast_lab.model.terms import POLICIES, RECOVERIES, STORE
from outlast_lab.model.weaving import Weaving
from outlast_lab.model.woven import WovenWorld

EXACT, WOVEN = "exact", "woven"
KINDS = (*((EXACT, profile) for profile in PROFILES), (WOVEN, "calls"), (WOVEN, RECOVERIES))
ACTIONS = ("retry", "retry", "pending", "fail")
STEPS = {EXACT: 50, WOVEN: 200}


# A task that the script has no name for; its id would be another one each time.
_MADE_UP = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class World(Protocol):
    """What both simulations have in common."""

    def do(self, step: Step) -> str:
        """Let a step happen and judge it; what was answered."""
        ...

    def finish(self) -> None:
        """All that is left can be finished."""
        ...

    def named(self, text: str) -> str:
        """A text with the names of the script in place of ids that the queue made up."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


@dataclass(frozen=True)
class Run:
    """The steps that were done, what was answered, and what is broken, if anything is."""

    script: Script
    answers: tuple[str, ...]
    broken: str | None

    def __str__(self) -> str:
        """The script with its answers, for people; it can be read back."""
        lines = [
            f"{step}{ARROW}{answer}" if answer else str(step)
            for step, answer in zip(self.script.steps, self.answers, strict=True)
        ]
        return "\n".join([self.script.header, *lines])


def drawn(folder: Path, case: str, seed: int, steps: int | None = None) -> Run:
    """The simulation of a case like 'exact leases 7': all of it follows from case and seed."""
    world, profile, _ = case.split()
    chance = random.Random(f"{seed} {case}")
    policies = tuple(POLICIES) if profile == RECOVERIES else ACTIONS
    script = Script(world, profile, chance.choice(policies))
    count = STEPS[world] if steps is None else steps

    def draw(place: World) -> Iterator[Step]:
        if isinstance(place, ExactWorld):
            return islice(Drawing(place, chance, profile).steps(), count)
        assert isinstance(place, WovenWorld)
        return islice(Weaving(place, chance, profile).steps(), count)

    return _run(folder, script, seed, draw)


def repeated(folder: Path, script: Script, seed: int) -> Run:
    """The simulation that a script tells."""
    return _run(folder, script, seed, lambda place: iter(script.steps))


def _run(folder: Path, script: Script, seed: int, steps: Callable[[World], Iterable[Step]]) -> Run:
    done: list[Step] = []
    answers: list[str] = []
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as place:
        shutil.copy(_empty_store(folder), Path(place) / STORE)
        world = _world(Path(place), script, seed)
        try:
            for step in steps(world):
                done.append(step)
                answers.append("")
                answers[-1] = world.do(step)
            world.finish()
            broken = None
        except Broken as error:
            broken = _told(world, str(error))
        except Exception as error:
            broken = _told(world, f"a surprise: {type(error).__name__}: {error}")
        finally:
            world.close()
    return Run(replace(script, steps=tuple(done)), tuple(answers), broken)


def _told(world: World, text: str) -> str:
    return _MADE_UP.sub("another task", world.named(text))


def _empty_store(folder: Path) -> Path:
    """Made once and copied: a simulation does not begin with the schema's history."""
    path = folder / "empty.db"
    if not path.exists():
        making = folder / "making.db"
        with Outlast(making):
            pass
        making.rename(path)
    return path


def _world(folder: Path, script: Script, seed: int) -> World:
    worlds: dict[str, Callable[[Path, Script, str], World]] = {
        EXACT: ExactWorld,
        WOVEN: WovenWorld,
    }
    return worlds[script.world](folder, script, str(seed))
