"""docs/benchmarks.md: each benchmark owns a section and rewrites that one alone."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
DOCUMENT = DOCS / "benchmarks.md"
CHART = DOCS / "benchmarks.svg"


def with_section(document: str, title: str, body: str) -> str:
    """The document with this section put in place of its older self, or at the end."""
    section = f"## {title}\n\n{body.strip()}\n"
    parts = re.split(r"(?m)^(?=## )", document)
    others = [part for part in parts if not part.startswith(f"## {title}\n")]
    place = next(
        (n for n, part in enumerate(parts) if part.startswith(f"## {title}\n")), len(parts)
    )
    kept = [part.rstrip() + "\n" for part in others]
    return "\n".join([*kept[:place], section, *kept[place:]])


def write_section(title: str, body: str, document: Path = DOCUMENT) -> None:
    old = document.read_text(encoding="utf-8") if document.exists() else "# Benchmarks\n"
    document.write_text(with_section(old, title, body), encoding="utf-8")
