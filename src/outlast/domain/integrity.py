"""What a check of the store's file says."""

from enum import StrEnum

from outlast.domain.record import record


class Verdict(StrEnum):
    """The words of the report."""

    PASSED = "PASSED"
    REPAIRED = "REPAIRED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


@record(frozen=True, slots=True)
class IntegrityResult:
    """The verdict, what was found, how long it took, and whether a repair was tried."""

    verdict: Verdict
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    duration_seconds: float = 0.0
    is_quick: bool = False
    reason: str = ""
    """Why it was skipped."""
    repair_attempted: bool = False
    repair_succeeded: bool = False

    @property
    def passed(self) -> bool:
        """Whether it was looked at and is sound, perhaps after a repair."""
        return self.verdict in (Verdict.PASSED, Verdict.REPAIRED)
