"""The chart: how much of each aim is reached, as an SVG that is readable by day and by night."""

from collections.abc import Sequence
from html import escape

from bench.results import Row

WIDTH = 960
LABELS = 470
RIGHT = 60
TOP = 64
STEP = 30
BAR = 14
# The axis ends at one and a half times the aim; what is beyond ends in an arrow.
END = 1.5

STYLE = """
  .ground { fill: #ffffff } .text { fill: #1f2328 } .quiet { fill: #59636e }
  .line { stroke: #d1d9e0 } .aim { stroke: #1f2328 } .bound { stroke: #9a6700 }
  .good { fill: #1a7f37 } .fair { fill: #4493f8 } .bad { fill: #cf222e }
  .spread { stroke: #1f2328; stroke-opacity: .6 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } .text { fill: #f0f6fc } .quiet { fill: #9198a1 }
    .line { stroke: #3d444d } .aim { stroke: #f0f6fc } .bound { stroke: #d29922 }
    .good { fill: #3fb950 } .fair { fill: #4493f8 } .bad { fill: #f85149 }
    .spread { stroke: #f0f6fc; stroke-opacity: .6 }
  }
  text { font: 13px system-ui, sans-serif } .title { font-weight: 600; font-size: 15px }
"""


def share(row: Row, value: float) -> float:
    """A value as a share of the goal, the aim or else the bound; more is always better."""
    goal = row.aim if row.aim is not None else row.at_least
    assert goal is not None, "only rows with a goal are drawn"
    if row.higher_is_better:
        return value / goal
    return goal / value if value > 0 else END


def at(value: float) -> float:
    """The place of a share on the axis."""
    width = WIDTH - LABELS - RIGHT
    return LABELS + width * min(max(value, 0.0), END) / END


def colour(row: Row) -> str:
    if share(row, row.ratio) >= 1:
        return "good"
    if row.at_least is not None and share(row, row.ratio) >= share(row, row.at_least):
        return "fair"
    return "bad"


def bar(row: Row, number: int) -> str:
    top = TOP + STEP * number
    middle = top + BAR / 2
    reached = share(row, row.ratio)
    low, high = sorted((share(row, row.low), share(row, row.high)))
    mark = share(row, row.at_least) if row.at_least is not None else 1.0
    parts = [
        f'<text class="text" x="{LABELS - 10}" y="{top + 12}" text-anchor="end">'
        f"{escape(shortened(row.what))}</text>",
        f'<rect class="{colour(row)}" x="{LABELS}" y="{top}" width="{at(reached) - LABELS:.1f}"'
        f' height="{BAR}" rx="2"/>',
        f'<line class="spread" x1="{at(low):.1f}" x2="{at(high):.1f}" y1="{middle}"'
        f' y2="{middle}" stroke-width="2"/>',
        f'<line class="bound" x1="{at(mark):.1f}" x2="{at(mark):.1f}" y1="{top - 4}"'
        f' y2="{top + BAR + 4}" stroke-width="2"/>',
        f'<text class="quiet" x="{WIDTH - RIGHT + 8}" y="{top + 12}">'
        f"{reached:.0%}{'→' if reached > END else ''}</text>",
    ]
    return "\n".join(parts)


def shortened(text: str, longest: int = 66) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def axis(height: int) -> str:
    lines = []
    for value in (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5):
        kind = "aim" if value == 1 else "line"
        lines.append(
            f'<line class="{kind}" x1="{at(value):.1f}" x2="{at(value):.1f}" y1="{TOP - 10}"'
            f' y2="{height - 24}"/>'
            f'<text class="quiet" x="{at(value):.1f}" y="{height - 8}" text-anchor="middle">'
            f"{value:.0%}</text>"
        )
    return "\n".join(lines)


def chart(rows: Sequence[Row]) -> str:
    drawn = [row for row in rows if row.aim is not None or row.at_least is not None]
    height = TOP + STEP * len(drawn) + 28
    title = "How much of each aim is reached"
    legend = "long line: the aim · short mark: the least that is wanted · thin line: the spread"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' width="{WIDTH}" height="{height}" role="img" aria-label="{title}">',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" width="{WIDTH}" height="{height}" rx="6"/>',
            f'<text class="text title" x="16" y="24">{title}</text>',
            f'<text class="quiet" x="16" y="43">{legend}</text>',
            axis(height),
            *(bar(row, number) for number, row in enumerate(drawn)),
            "</svg>",
            "",
        ]
    )
