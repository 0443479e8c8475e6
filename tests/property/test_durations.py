from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import InvalidInput
from outlast.domain.duration import LONGEST_MS, duration_ms

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

parts = st.lists(
    st.tuples(st.integers(0, 1000), st.sampled_from(sorted(UNITS_MS))), min_size=1, max_size=5
)


@given(parts, st.sampled_from(["", " "]))
def test_a_duration_in_words_is_the_sum_of_its_parts(
    parts: list[tuple[int, str]], between: str
) -> None:
    text = between.join(f"{number}{unit}" for number, unit in parts)
    assert duration_ms(text, "delay") == sum(n * UNITS_MS[unit] for n, unit in parts)


@given(st.integers(0, LONGEST_MS))
def test_the_same_time_in_whatever_form_is_the_same_duration(ms: int) -> None:
    expected = ms
    assert duration_ms(f"{ms}ms", "delay") == expected
    assert duration_ms(timedelta(milliseconds=ms), "delay") == expected
    assert duration_ms(ms / 1000, "delay") == expected


@pytest.mark.slow
@given(st.floats() | st.integers() | st.text() | st.timedeltas())
def test_whatever_is_given_is_a_duration_within_limits_or_refused(
    value: float | str | timedelta,
) -> None:
    """Never another error, and never a time that the store cannot hold."""
    try:
        ms = duration_ms(value, "delay")
    except InvalidInput:
        return
    assert type(ms) is int
    assert 0 <= ms <= LONGEST_MS


@given(st.text(alphabet="0123456789.dhms -", min_size=1))
def test_text_that_is_not_read_to_its_end_is_refused(text: str) -> None:
    try:
        duration_ms(text, "delay")
    except InvalidInput:
        return
    rest = text.replace(" ", "")
    assert rest.strip("0123456789.msdh") == ""
    assert rest[0].isdigit()
    assert rest[-1] in "smhd"


@given(st.integers(max_value=-1) | st.integers(min_value=LONGEST_MS // 1000 + 1))
def test_a_time_before_now_or_beyond_a_century_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidInput):
        duration_ms(seconds, "delay")
