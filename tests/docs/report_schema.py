"""The JSON schema of the recovery report, made from the code. To bring it up to date:

./run python -m tests.docs.report_schema --write
"""

import json
import sys
from pathlib import Path

import msgspec

from outlast import ReportDocument

PAGE = Path(__file__).parents[2] / "docs" / "recovery-report.schema.json"


def rendered() -> str:
    """The schema as it stands in the code."""
    return json.dumps(msgspec.json.schema(ReportDocument), indent=2) + "\n"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    PAGE.write_text(rendered())
