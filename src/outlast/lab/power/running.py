"""The flow of the experiment: lives are recorded, their images judged, controls shown to fail."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from outlast.lab.experiment import Finding, Findings, Plan
from outlast.lab.power.calibration import calibrate
from outlast.lab.power.choices import NONE, Case, Choosing, parse_case
from outlast.lab.power.hand import LYING
from outlast.lab.power.hands import Hands, Order
from outlast.lab.power.own_lives import ALL_LIVES
from outlast.lab.power.recording import Recording
from outlast.lab.power.reopening import SECOND_CUTS
from outlast.lab.power.tally import Tally

NATURAL_CASES = 5000
CASES_OF_A_LIFE = 600
CONTROLS = ("normal", "off", LYING)
FIRST_OPENINGS = ("migrate", "migrate on")

_CONTROL_LIFE = "finish and flush"
_CONTROL_CASES = 60
_CASES_OF_AN_ORDER = 40
_OPENED_OF_AN_ORDER = 1
_OPENED_OF_FIRST_OPENINGS = 5
_CUT_AGAIN_EVERY = 5


class Run:
    """One run of the experiment on some lives; without controls it is not calibrated either."""

    def __init__(
        self, plan: Plan, lives: Sequence[str], controls: Sequence[str] = CONTROLS
    ) -> None:
        self._plan = plan
        self._lives = list(lives)
        self._modes = list(controls)
        self._tally = Tally(plan)
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
                self._prepare(hands)
                self._judge(hands, self._always())
                if not self._tally.has_enough() and not self._plan.time_is_up():
                    self._control(hands)
                    self._judge(hands, self._others())
        return self._tally.findings_of()

    def _folder(self, mode: str, life: str) -> str:
        return str(self._plan.folder / (mode or "full") / life)

    def _calibrate(self) -> None:
        """Is what the recorder writes down what the kernel was asked to do?"""
        compared = calibrate(self._plan.folder / "calibration", "migrate")
        if compared.note:
            self._tally.notes.append(compared.note)
        if compared.differences:
            self._tally.findings.append(Finding("; ".join(compared.differences[:5]), "calibration"))

    # The whole runs, which are the reference

    def _prepare(self, hands: Hands) -> None:
        for order, told in hands.do(self._preparations()):
            life = order.arguments["life"]
            if "failed" in told:
                self._tally.findings.append(Finding(f"{life}: {told['failed']}", life))
                continue
            recording = _recording(order.arguments["folder"])
            self._tally.begin(life, recording)
            self._choosing[life] = Choosing(life, recording, self._plan.seed)
            self._tally.judged(life, told["verdicts"])
            self._plan.progress(f"recorded {life}")

    def _preparations(self) -> Iterator[Order]:
        for life in self._lives:
            learned = self._tally.distinct()
            is_enough = self._wanted is not None and 2 * learned >= self._wanted
            if self._choosing and (is_enough or self._time_is_short()):
                self._tally.notes.append(f"for {life} and what follows there was no room")
                return
            arguments = {"folder": self._folder("", life), "life": life, "mode": ""}
            yield Order("prepare", arguments)

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

    def _always(self) -> Iterator[Order]:
        """At each point all that was not synced is lost, a bit of each life in turn."""
        cases = {life: _lost(one.always()) for life, one in self._choosing.items()}
        for order in self._dealt(cases):
            yield order
            if self._tally.has_enough() or self._plan.time_is_up():
                return

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
                few = _OPENED_OF_FIRST_OPENINGS if life in FIRST_OPENINGS else _OPENED_OF_AN_ORDER
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

    def _control(self, hands: Hands) -> None:
        """Less than a full sync, or a disk that lies: if that does no harm, we see nothing."""
        orders = [
            Order("prepare", {"folder": self._folder(mode, life), "life": life, "mode": mode})
            for mode in self._modes
            for life in (_CONTROL_LIFE,)
        ]
        judged = []
        for order, told in hands.do(order for order in orders if not self._plan.time_is_up()):
            if "failed" in told:
                continue
            mode, life = order.arguments["mode"], order.arguments["life"]
            self._tally.controlled(mode, life, told["verdicts"])
            recording = _recording(order.arguments["folder"], mode)
            choosing = Choosing(life, recording, self._plan.seed)
            cases = [*_lost(choosing.always()), *choosing.others()[:_CONTROL_CASES]]
            chosen = sorted((case.cut, case.choice) for case in cases)
            folder = order.arguments["folder"]
            judged.append(Order("judge", {"folder": folder, "mode": mode, "cases": chosen}))
        for order, told in hands.do(iter(judged)):
            mode, life = order.arguments["mode"], Path(order.arguments["folder"]).name
            self._tally.controlled(mode, life, told["verdicts"])
        self._tally.check_controls()

    # One case again

    def _replay(self, hands: Hands, text: str) -> None:
        mode, case = parse_case(text)
        if case.life not in ALL_LIVES:
            raise ValueError(f"there is no life {case.life!r}; choose from {', '.join(ALL_LIVES)}")
        self._tally.mode = mode
        folder = self._folder(mode, case.life)
        prepare = Order("prepare", {"folder": folder, "life": case.life, "mode": mode})
        for _, told in hands.do(iter([prepare])):
            if "failed" in told:
                self._tally.findings.append(Finding(told["failed"], text))
                return
            self._tally.begin(case.life, _recording(folder, mode))
        cases = [(case.cut, case.choice)]
        judge = Order("judge", {"folder": folder, "mode": mode, "cases": cases})
        reopen = Order(
            "reopen",
            {**judge.arguments, "seed": self._plan.seed, "second_cuts": SECOND_CUTS},
        )
        for order, told in hands.do(iter([judge, reopen])):
            if order.verb == "judge":
                self._tally.judged(case.life, told["verdicts"])
            else:
                self._tally.reopened(case.life, told)


def _recording(folder: str, mode: str = "") -> Recording:
    """What was recorded there; a disk that lies has synced nothing of it."""
    recording = Recording.load(Path(folder))
    return recording.without_syncs() if mode == LYING else recording


def _lost(cases: Sequence[Case]) -> list[Case]:
    """Those of the cases in which nothing is kept; where all is, has been judged already."""
    return [case for case in cases if case.choice == NONE]
