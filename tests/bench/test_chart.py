import xml.etree.ElementTree as ET
from dataclasses import replace

from bench import chart
from tests.bench.rows import BAD, FAIR, GOOD, LESS

SVG = "{http://www.w3.org/2000/svg}"


def bars(text: str) -> dict[str, float]:
    """The width of each bar, by its colour."""
    found = ET.fromstring(text).iter(f"{SVG}rect")
    return {bar.get("class", ""): float(bar.get("width", "0")) for bar in found}


def test_every_row_with_a_goal_is_drawn_in_the_colour_of_its_verdict() -> None:
    drawn = bars(chart.chart([GOOD, FAIR, BAD, replace(GOOD, at_least=None, aim=None)]))
    assert set(drawn) == {"ground", "good", "fair", "bad"}
    assert drawn["good"] > drawn["fair"] > drawn["bad"] > 0


def test_where_less_is_better_less_makes_a_longer_bar() -> None:
    small, large = replace(LESS, ratio=25.0), replace(LESS, ratio=80.0)
    assert chart.share(small, small.ratio) > 1 > chart.share(large, large.ratio) > 0
    assert chart.colour(small) == "good"
    assert chart.colour(LESS) == "bad"


def test_a_bar_beyond_the_axis_ends_at_it_and_says_so() -> None:
    text = chart.chart([replace(GOOD, ratio=80.0)])
    assert bars(text)["good"] <= chart.WIDTH - chart.LABELS - chart.RIGHT
    assert "10000%→" in text


def test_texts_cannot_break_the_picture() -> None:
    text = chart.chart([replace(GOOD, what='a <b> & "c"')])
    assert 'a <b> & "c"' in "".join(ET.fromstring(text).itertext())


def test_the_picture_brings_its_own_ground_for_day_and_night() -> None:
    text = chart.chart([GOOD])
    assert "prefers-color-scheme: dark" in text
    assert text.count(".ground") == 2
