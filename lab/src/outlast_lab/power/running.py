"""The flow of the experiment: lives are recorded, their images judged, controls shown to fail."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from outlast.errors import InvalidInput
from outlast_lab.experiment import Finding, Findings, Plan
from outlast_lab.power.calibration import calibrate
from outlast_lab.power.choices import (
    ALL,
    HOW_CASES_LOOK,
    NONE,
    Case,
    Choosing,
    kept,
    parse_case,
)
from outlast_lab.power.disk import Player
from outlast_lab.power.hand import LYING
from outlast_lab.power.hands import Hands, Order
from outlast_lab.power.own_lives import ALL_LIVES
from outlast_lab.power.recording import Recording
from outlast_lab.power.reopening import SECOND_CUTS
from outlast_lab.power.tally import Tally

NATURAL_CASES = 5000
CASES_OF_A_LIFE = 600
CONTROLS = ("normal", "off", LYING)
CALIBRATION = "calibration"
OPENED_OFTEN = ("migrate", "migrate on", "heal", "start")
"""The lives after which much depends on whoever opens the store next."""

_CONTROL_LIFE = "finish and flush"
_CONTROL_CASES = 60
_CONTROL_EVERY = 4
_SHORT_SECONDS = 30
_CASES_OF_AN_ORDER = 40
_OPENED_OF_AN_ORDER = 1
_OPENED_OFTEN = 5
_CUT_AGAIN_EVERY = 5


class Run:
    """One run of the experiment on some lives; without controls it is not calibrated either."""

    def __init__(
        self, plan: Plan, lives: Sequence[str], controls: Sequence[str] = CONTROLS
    ) -> None:
        self._plan = plan
        self._lives = list(lives)
        self._modes = list(controls)
        self._tally = Tally(plan, () if plan.case else self._lives)
        self._choosing: dict[str, Choosing] = {}
        self._reopenings = 0
        self._wanted = plan.cases or (None if plan.seconds else NATURAL_CASES)

    def all(self) -> Findings:
        """Do it."""
        with Hands(self._plan.folder) as hands:
            if self._plan.case is not None:
                self._replay(hands, self._plan.case)
            else:
                if self._modes:
                    self._calibrate()
                    self._control(hands, self._modes)
                self._prepare(hands)
                # The least that is done whatever the time: at each sync all is lost that can be.
                self._judge(hands, self._at_the_syncs())
                self._judge(hands, self._elsewhere())
                self._judge(hands, self._others())
        return self._tally.findings_of()

    def _folder(self, mode: str, life: str) -> str:
        return str(self._plan.folder / (mode or "full") / life)

    def _calibrate(self) -> None:
        """Is what the recorder writes down what the kernel was asked to do?"""
        compared = calibrate(self._plan.folder / CALIBRATION, "migrate")
        if compared.note:
            self._tally.notes.append(compared.note)
        if compared.differences:
            self._tally.findings.append(Finding("; ".join(compared.differences[:5]), CALIBRATION))

    # The whole runs, which are the reference

    def _prepare(self, hands: Hands) -> None:
        for order, told in hands.do(self._preparations()):
            life = order.arguments["life"]
            if "failed" in told:
                self._tally.findings.append(Finding(f"{life}: {told['failed']}", life))
                continue
            recording = _recording(order.arguments["folder"])
            self._tally.begin(life, recording, told["verdicts"])
            self._choosing[life] = Choosing(life, recording, self._plan.seed)
            self._tally.judged(life, told["verdicts"])
            self._plan.progress(f"recorded {life}")

    def _preparations(self) -> Iterator[Order]:
        for number, life in enumerate(self._in_turn()):
            learned = self._tally.distinct()
            is_enough = self._wanted is not None and 2 * learned >= self._wanted
            if number and (is_enough or self._time_is_short()):
                return
            arguments = {"folder": self._folder("", life), "life": life, "mode": ""}
            yield Order("prepare", arguments)

    def _in_turn(self) -> list[str]:
        """The lives; where there is no room for all, another seed begins with others."""
        first = self._plan.seed % len(self._lives) if self._plan.seconds is not None else 0
        return [*self._lives[first:], *self._lives[:first]]

    def _time_is_short(self) -> bool:
        """Whether half of the time is over: the rest is for the images."""
        seconds = self._plan.seconds
        return seconds is not None and self._plan.elapsed_seconds() > seconds / 2

    # The images

    def _judge(self, hands: Hands, orders: Iterator[Order]) -> None:
        for order, told in hands.do(orders):
            life = Path(order.arguments["folder"]).name
            if order.verb == "judge":
                self._tally.judged(life, told["verdicts"])
            else:
                self._tally.reopened(life, told)
            found = len(self._tally.findings)
            self._plan.progress(f"{self._tally.distinct()} images, {found} violations")

    def _is_over(self) -> bool:
        tally, plan = self._tally, self._plan
        if plan.seconds is not None:
            return tally.has_enough() or plan.time_is_up()
        return tally.has_enough() or tally.distinct() >= (self._wanted or 0)

    def _at_the_syncs(self) -> Iterator[Order]:
        """At each sync boundary all that was not synced is lost, and one such image is opened."""
        for life, recording in self._tally.recordings().items():
            cases = [Case(life, cut, NONE) for cut in recording.sync_boundaries()]
            yield self._order("judge", life, cases)
            yield self._reopening(life, [cases[self._plan.seed % len(cases)]])

    def _elsewhere(self) -> Iterator[Order]:
        """At each other point all that was not synced is lost, a bit of each life in turn."""
        cases = {}
        for life, one in self._choosing.items():
            boundaries = set(self._tally.recordings()[life].sync_boundaries())
            cases[life] = [case for case in _lost(one.always()) if case.cut not in boundaries]
        for order in self._dealt(cases):
            if self._tally.has_enough() or self._plan.time_is_up():
                return
            yield order

    def _others(self) -> Iterator[Order]:
        """All else by the seed, and by the next seed when there is time for more."""
        for seed in range(self._plan.seed, self._plan.seed + 1000):
            others = {
                life: Choosing(life, recording, seed).others()
                for life, recording in self._tally.recordings().items()
            }
            for order in self._dealt(others):
                if self._is_over():
                    return
                yield order

    def _dealt(self, cases: dict[str, list[Case]]) -> Iterator[Order]:
        left = {life: iter(some) for life, some in cases.items()}
        while left:
            for life in list(left):
                some = list(islice(left[life], _CASES_OF_AN_ORDER))
                if not some:
                    del left[life]
                    continue
                yield self._order("judge", life, some)
                few = _OPENED_OFTEN if life in OPENED_OFTEN else _OPENED_OF_AN_ORDER
                yield self._reopening(life, some[:: max(1, len(some) // few)][:few])

    def _order(self, verb: str, life: str, cases: Sequence[Case], **more: Any) -> Order:
        chosen = sorted((case.cut, case.choice) for case in cases)
        folder = self._folder("", life)
        return Order(verb, {"folder": folder, "mode": "", "cases": chosen, **more})

    def _reopening(self, life: str, cases: Sequence[Case]) -> Order:
        self._reopenings += 1
        second_cuts = SECOND_CUTS if self._reopenings % _CUT_AGAIN_EVERY == 0 else 0
        return self._order("reopen", life, cases, seed=self._plan.seed, second_cuts=second_cuts)

    # The controls

    def _control(self, hands: Hands, modes: Sequence[str]) -> None:
        """Less than a full sync, or a disk that lies: if that does no harm, we see nothing."""
        life = _CONTROL_LIFE
        orders = [
            Order("prepare", {"folder": self._folder(mode, life), "life": life, "mode": mode})
            for mode in modes
        ]
        judged, failed = [], {}
        for order, told in hands.do(iter(orders)):
            mode, folder = order.arguments["mode"], order.arguments["folder"]
            if "failed" in told:
                failed[mode] = f"was not played: {told['failed']}"
                continue
            self._tally.controlled(mode, life, told["verdicts"])
            choosing = Choosing(life, _recording(folder, mode), self._plan.seed)
            cases = _lost(choosing.always())
            if self._plan.seconds is not None and self._plan.seconds < _SHORT_SECONDS:
                cases = cases[::_CONTROL_EVERY]
            else:
                cases += choosing.others()[:_CONTROL_CASES]
            chosen = sorted((case.cut, case.choice) for case in cases)
            judged.append(Order("judge", {"folder": folder, "mode": mode, "cases": chosen}))
        for order, told in hands.do(iter(judged)):
            self._tally.controlled(order.arguments["mode"], life, told["verdicts"])
        self._tally.check_controls(modes, failed)
        self._plan.progress(f"{len(modes)} controls")

    # One case again

    def _replay(self, hands: Hands, text: str) -> None:
        if text == CALIBRATION:
            self._calibrate()
        elif text in CONTROLS:
            self._control(hands, [text])
        else:
            self._replay_image(hands, text)

    def _replay_image(self, hands: Hands, text: str) -> None:
        mode, case = parse_case(text)
        if case.life not in ALL_LIVES:
            lives = ", ".join(ALL_LIVES)
            raise InvalidInput(f"there is no life {case.life!r}; choose from {lives}")
        if mode and mode not in CONTROLS:
            raise InvalidInput(f"there is no control {mode!r}; choose from {', '.join(CONTROLS)}")
        self._tally.mode = mode
        folder = self._folder(mode, case.life)
        prepare = Order("prepare", {"folder": folder, "life": case.life, "mode": mode})
        for _, told in hands.do(iter([prepare])):
            if "failed" in told:
                self._tally.findings.append(Finding(told["failed"], text))
                return
            recording = _recording(folder, mode)
            _check(recording, case)
            self._tally.begin(case.life, recording, told["verdicts"])
            # Only whoever sees the whole run can say that a call was done in parts.
            self._tally.judged(
                case.life, [told["verdicts"][case.cut]] if case.choice == ALL else []
            )
        cases = [(case.cut, case.choice)]
        judge = Order("judge", {"folder": folder, "mode": mode, "cases": cases})
        reopen = Order(
            "reopen",
            {**judge.arguments, "seed": self._plan.seed, "second_cuts": SECOND_CUTS},
        )
        for order, told in hands.do(iter([judge, reopen])):
            if order.verb == "reopen":
                self._tally.reopened(case.life, told)
            elif case.choice != ALL:
                self._tally.judged(case.life, told["verdicts"])


def _check(recording: Recording, case: Case) -> None:
    """Refuse a case that this recording does not have."""
    last = len(recording.events)
    if case.cut > last:
        raise InvalidInput(
            f"{case.life!r} has no cut {case.cut}, only 0 to {last}: {HOW_CASES_LOOK}"
        )
    kept(case.choice, Player(recording).at(case.cut).changes)


def _recording(folder: str, mode: str = "") -> Recording:
    """What was recorded there; a disk that lies has synced nothing of it."""
    recording = Recording.load(Path(folder))
    return recording.without_syncs() if mode == LYING else recording


def _lost(cases: Sequence[Case]) -> list[Case]:
    """Those of the cases in which nothing is kept; where all is, has been judged already."""
    return [case for case in cases if case.choice == NONE]
