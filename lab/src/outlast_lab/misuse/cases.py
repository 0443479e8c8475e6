"""All cases of misuse by name, each with what must happen."""

from itertools import chain

from outlast_lab.misuse import by_hand, endings, files, forks, places, second_copy, strangers
from outlast_lab.misuse.scene import Case

CASES: dict[str, Case] = dict(
    chain(
        second_copy.cases(),
        forks.cases(),
        files.cases(),
        strangers.cases(),
        places.cases(),
        by_hand.cases(),
        endings.cases(),
    )
)
