import math
from datetime import timedelta
from typing import Any

import pytest

from outlast.domain.duration import duration_ms
from outlast.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (0, 0),
        (5, 5000),
        (0.25, 250),
        (0.0015, 2),
        ("250ms", 250),
        ("90s", 90_000),
        ("5m", 300_000),
        ("1.5h", 5_400_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("2d", 172_800_000),
        (timedelta(minutes=2, microseconds=1500), 120_002),
    ],
)
def test_a_duration_is_seconds_a_timedelta_or_text(given: Any, ms: int) -> None:
    assert duration_ms(given, "delay") == ms


@pytest.mark.parametrize(
    "given",
    [
        -1, -0.1, timedelta(seconds=-1), math.nan, math.inf, -math.inf, 1e20, "36601d", True, None,
        [], b"5m", "", "5", "m", "5 m", "5x", "5m!", "-5m", "1h,30m", "five", "1e3s", "1 0s", "٣",
    ],
)  # fmt: skip
def test_anything_else_is_refused_in_a_sentence_that_names_the_argument(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^delay must "):
        duration_ms(given, "delay")


def test_a_hundred_years_is_the_longest() -> None:
    assert duration_ms("36600d", "delay") == 36_600 * 86_400_000
