"""Words for parts that were taken out are gone from the pages, too."""

import re

from tests.support.children import ROOT

RETIRED = re.compile(r"\b(bell|clerk|usher|fifo|short way|turns at the gate)\b", re.IGNORECASE)
# They tell what was dropped, or what others call their own.
TELLS_OF_THEM = {"docs/adr/0018-one-committer-thread.md", "docs/requirements.md"}


def test_no_page_tells_of_a_part_that_is_gone() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    assert len(pages) > 250
    found = [
        f"{page.relative_to(ROOT)}: {word.group()}"
        for page in pages
        for word in RETIRED.finditer(page.read_text(encoding="utf-8"))
        if str(page.relative_to(ROOT)) not in TELLS_OF_THEM
    ]
    assert found == []
