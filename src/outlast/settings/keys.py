"""What the knobs are called in settings files and in the environment, and what comes closest."""

from collections.abc import Iterable

from outlast.settings.knobs import KNOBS

PREFIX = "OUTLAST_"
STORE = "store"
STORE_VARIABLE = f"{PREFIX}STORE"
FILE_VARIABLE = f"{PREFIX}SETTINGS"
# The command line's own: whether it shows where an unexpected error came from.
DEBUG_VARIABLE = f"{PREFIX}DEBUG"
OTHER_VARIABLES = (STORE_VARIABLE, FILE_VARIABLE, DEBUG_VARIABLE)

KNOB_OF_VARIABLE = {f"{PREFIX}{name.upper()}": name for name in KNOBS}

KNOB_OF_NESTED_KEY = {
    "queue.recovery.enabled": "recovery_enabled",
    "queue.recovery.mode": "recovery_mode",
    "queue.recovery.action": "recovery_action",
    "queue.recovery.maxRecoveryAttempts": "max_recovery_attempts",
    "queue.recovery.integrityCheckOnStartup": "integrity_check_on_startup",
    "queue.heartbeat.intervalSeconds": "heartbeat_interval_seconds",
    "queue.heartbeat.detectionIntervalSeconds": "detection_interval_seconds",
    "queue.heartbeat.graceSeconds": "heartbeat_grace_seconds",
}
# The same knob as heartbeat_stale_seconds, told in beats.
STALE_MULTIPLIER_KEY = "queue.heartbeat.staleThresholdMultiplier"

KNOB_OF_KEY = {
    **{name: name for name in KNOBS},
    **{f"outlast.{name}": name for name in KNOBS},
    **KNOB_OF_NESTED_KEY,
}
STORE_KEYS = (STORE, f"outlast.{STORE}", f"queue.{STORE}")
ALL_KEYS = (*KNOB_OF_KEY, STALE_MULTIPLIER_KEY, *STORE_KEYS)

# A key of a file is refused in any case, so a guess does no harm; a variable only for its likeness.
_ALIKE_ENOUGH_TO_GUESS = 0.55
_ALIKE_ENOUGH_TO_REFUSE = 0.7


def nearest_variable(variable: str) -> str | None:
    """The variable that was probably meant; the prefix, which all share, says nothing."""
    tails = [name.removeprefix(PREFIX) for name in (*KNOB_OF_VARIABLE, *OTHER_VARIABLES)]
    found = nearest(variable.removeprefix(PREFIX), tails, _ALIKE_ENOUGH_TO_REFUSE)
    return None if found is None else PREFIX + found


def nearest(word: str, known: Iterable[str], alike: float = _ALIKE_ENOUGH_TO_GUESS) -> str | None:
    """The known word that was probably meant, whatever its case and underscores."""
    from difflib import get_close_matches

    by_bare_word = {_bare(one): one for one in known}
    begins = (one for one in by_bare_word.values() if one.startswith(f"{word}_"))
    found = get_close_matches(_bare(word), by_bare_word, n=1, cutoff=alike)
    return by_bare_word[found[0]] if found else next(begins, None)


def _bare(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
