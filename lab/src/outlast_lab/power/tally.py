"""Counting: distinct images, boundaries and operations that were hit, and what was found."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from outlast_lab.experiment import Finding, Findings, Plan
from outlast_lab.power.choices import ALL, Case, case_text, kept
from outlast_lab.power.disk import Player
from outlast_lab.power.judging import BROKEN, lay_down
from outlast_lab.power.recording import Recording

MOST_FINDINGS = 20


class Tally:
    """All verdicts of one run, held against what there was to hit."""

    def __init__(self, plan: Plan, lives: Sequence[str] = ()) -> None:
        self._plan = plan
        self._lives = list(lives)
        """Those that were to be played."""
        self._recordings: dict[str, Recording] = {}
        self._images: dict[str, set[str]] = {}
        self._cuts: dict[str, set[int]] = {}
        self._whole: dict[str, dict[int, str]] = {}
        self._opened: set[tuple[str, str]] = set()
        self._counted: Counter[str] = Counter()
        self._controls: dict[str, Counter[str]] = {}
        self.mode = ""
        """That of the control whose case is replayed, if it is one."""
        self.findings: list[Finding] = []
        self.notes: list[str] = []

    def has_enough(self) -> bool:
        """Whether so much is broken that nobody needs to see more of it."""
        return len(self.findings) >= MOST_FINDINGS

    def distinct(self) -> int:
        """How many different images were judged."""
        return len(set().union(*self._images.values()))

    def begin(self, life: str, recording: Recording, learned: Iterable[Sequence[Any]] = ()) -> None:
        """Count for a life that was recorded; what was learned are its images without a loss."""
        self._images[life], self._cuts[life] = set(), set()
        self._recordings[life] = recording
        self._whole[life] = {cut: image for cut, _, image, _ in learned}

    def recordings(self) -> dict[str, Recording]:
        """The recordings by life."""
        return self._recordings

    def judged(self, life: str, verdicts: Iterable[Sequence[Any]]) -> None:
        """Count what the foreign reader found."""
        for cut, choice, image, complaints in verdicts:
            self._counted["judged"] += 1
            self._images[life].add(image)
            self._counted["with a loss"] += image != self._whole[life].get(cut, image)
            if choice != ALL:
                # Where nothing was taken away, power has not failed.
                self._cuts[life].add(cut)
            self._complain(Case(life, cut, choice), complaints)

    def reopened(self, life: str, told: dict[str, Any]) -> None:
        """Count what Outlast made of images, and of power that failed again."""
        self._counted["opened again"] += told["opened again"]
        for cut, choice, image, complaints in told["opened"]:
            self._opened.add((life, image))
            self._complain(Case(life, cut, choice), complaints)
        for cut, choice, (cut_again, choice_again, image, complaints) in told["again"]:
            self._counted["cut again"] += 1
            self._images[life].add(image)
            where = f"power failed again at cut {cut_again}/{choice_again}: "
            self._complain(Case(life, cut, choice), complaints, where)

    def _complain(self, case: Case, complaints: Sequence[Sequence[str]], where: str = "") -> None:
        text = case_text(self.mode, case)
        is_known = any(one.case == text for one in self.findings)
        if complaints and not is_known and not self.has_enough():
            what = where + "; ".join(f"{kind}: {detail}" for kind, detail in complaints)
            self.findings.append(Finding(what, text, self._evidence(case, text)))

    def _evidence(self, case: Case, text: str) -> Path | None:
        recording = self._recordings[case.life]
        disk = Player(recording).at(case.cut)
        folder = self._plan.folder / "image"
        folder.mkdir(exist_ok=True)
        lay_down(disk.image(kept(case.choice, disk.changes)), folder)
        try:
            return self._plan.keep_evidence(
                text, sorted(folder.iterdir()), recording=recording.in_words(case.cut)
            )
        finally:
            for file in folder.iterdir():
                file.unlink()

    def controlled(self, mode: str, life: str, verdicts: Sequence[Sequence[Any]]) -> None:
        """Count what a control lost; NORMAL may lose the last commits, and nothing else."""
        counted = self._controls.setdefault(mode, Counter())
        for cut, choice, _, complaints in verdicts:
            kinds = {kind for kind, _ in complaints}
            counted.update({"images": 1, "harmed": bool(kinds), BROKEN: BROKEN in kinds})
            if mode == "normal" and BROKEN in kinds and not self.has_enough():
                what = "; ".join(detail for kind, detail in complaints if kind == BROKEN)
                text = case_text(mode, Case(life, cut, choice))
                self.findings.append(Finding(f"synchronous NORMAL broke the store: {what}", text))

    def check_controls(self, modes: Iterable[str], failed: Mapping[str, str]) -> None:
        """A control that shows no harm, or was not judged, says that the experiment is blind."""
        for mode in modes:
            counted = self._controls.get(mode, Counter())
            if not counted["harmed"]:
                what = failed.get(mode, "lost nothing")
                self.findings.append(
                    Finding(f"the control {mode!r} {what}: this experiment is blind", mode)
                )

    def findings_of(self) -> Findings:
        """All of it."""
        figures: dict[str, int | float | str] = {
            "images judged": self._counted["judged"] + self._counted["cut again"],
            "with a loss": self._counted["with a loss"],
            "distinct": self.distinct(),
            "lives": f"{len(self._recordings)} of {len(self._lives) or 1}",
            "of them": ", ".join(f"{life} {len(one)}" for life, one in self._images.items()),
            "sync boundaries": _of(self._boundaries()),
            "operations": _of(self._operations()),
            "opened by Outlast": len(self._opened),
            "power failed again": self._counted["cut again"],
            "opened again": self._counted["opened again"],
        }
        for mode, counted in self._controls.items():
            figures[f"control {mode}"] = (
                f"{counted['harmed']} of {counted['images']} images harmed,"
                f" {counted[BROKEN]} of them broken"
            )
        plan = self._plan
        left_out = [life for life in self._lives if life not in self._recordings]
        notes = [*self.notes]
        if left_out:
            notes.append(f"there was no room for these lives: {', '.join(left_out)}")
        return Findings(
            "power", self.distinct(), self.findings, plan.elapsed_seconds(), plan.seed,
            figures, notes,
        )  # fmt: skip

    def _boundaries(self) -> tuple[int, int]:
        hit = total = 0
        for life, recording in self._recordings.items():
            boundaries = recording.sync_boundaries()
            total += len(boundaries)
            hit += sum(cut in self._cuts[life] for cut in boundaries)
        return hit, total

    def _operations(self) -> tuple[int, int]:
        """Calls in the middle of which power failed."""
        hit = total = 0
        for life, recording in self._recordings.items():
            for _, asked, answered in recording.calls():
                total += 1
                hit += not self._cuts[life].isdisjoint(range(asked + 1, answered + 1))
        return hit, total


def _of(counted: tuple[int, int]) -> str:
    return f"{counted[0]} of {counted[1]}"
