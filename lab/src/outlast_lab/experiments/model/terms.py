"""The terms of every simulation: its queues, and settings that make much happen in little time."""

from outlast.domain.lifecycle import RecoveryAction
from outlast.settings import Settings
from outlast_lab.experiments.model.records import Rules

STORE = "work.db"
QUEUES = ("q1", "q2")
HEAL_BATCH = 2
OWN_RECOVERIES = (None, None, 0, 1, 3)
"""What a task may say of how many crashes in a row it stands; None leaves that to the settings."""
CHECKPOINTS = ("tool_executed", "iteration_end", "iteration_start")
"""What a handler records of itself; the last of them is no progress."""
RECOVERIES = "recoveries"
"""The profile that dwells on recovery, under every policy there is."""


# A script names its policy in these words: the action, those of kinds, and whether it is held.
POLICIES: dict[str, Rules] = {
    **{action: Rules(action) for action in ("retry", "pending", "fail", "none")},
    "none for b": Rules("retry", {"b": "none"}),
    "fail for b": Rules("pending", {"b": "fail"}),
    "retry for b alone": Rules("none", {"b": "retry"}),
    "retry held": Rules("retry", is_held=True),
    "pending held": Rules("pending", {"b": "retry"}, is_held=True),
}


def settings_of(rules: Rules) -> Settings:
    """What the model knows as rules, for the queue.

    Nobody cuts the power here, so nothing is synced: that is for other experiments.
    """
    return Settings(
        recovery_action=RecoveryAction(rules.action).value,
        recovery_action_by_kind=dict(rules.by_kind),
        recovery_mode="manual" if rules.is_held else "auto",
        max_retries=rules.max_retries,
        max_recovery_attempts=rules.max_recoveries,
        lease_seconds=rules.lease_ms / 1000,
        idempotency_ttl_seconds=rules.key_ttl_ms / 1000,
        heal_interval_seconds=rules.heal_interval_ms / 1000,
        retry_backoff_seconds=rules.backoff_ms / 1000,
        retry_backoff_cap_seconds=rules.backoff_cap_ms / 1000,
        heal_batch=HEAL_BATCH,
        detection_interval_seconds=0,
        synchronous="normal",
    )
