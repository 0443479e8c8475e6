"""The alert rules and the dashboard that are handed out speak of metrics that exist."""

import importlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from outlast.domain.metrics import METRICS
from tests.docs.pages import ROOT
from tests.metrics.reading import PROMTOOL

yaml: Any = importlib.import_module("yaml")

FOLDER = ROOT / "examples" / "monitoring"
ALERTS = FOLDER / "alerts.yml"
DASHBOARD = FOLDER / "grafana-dashboard.json"
PAGE = ROOT / "docs" / "monitoring.md"

_OF_HISTOGRAMS = ("_bucket", "_count", "_sum")


def _names_in(expression: str) -> set[str]:
    return set(re.findall(r"\boutlast_\w+", expression))


def _exists(name: str) -> bool:
    for end in _OF_HISTOGRAMS:
        base = name.removesuffix(end)
        if base != name and base in METRICS and METRICS[base].kind == "histogram":
            return True
    return name in METRICS and METRICS[name].kind != "histogram"


def _rules() -> list[dict[str, str]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return list(group["rules"])


def _targets() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def _unknown_in(expression: str) -> set[str]:
    """Metrics of an expression that do not exist, and labels that its metrics do not have."""
    names = _names_in(expression)
    unknown = {name for name in names if not _exists(name)} if names else {"no metric at all"}
    for selected, labels in re.findall(r"(outlast_\w+)\{([^}]*)\}", expression):
        metric = METRICS.get(re.sub("_(bucket|count|sum)$", "", selected))
        known = {"instance", *(metric.labels if metric else ())}
        unknown |= set(re.findall(r"(\w+)\s*=", labels)) - known
    return unknown


def test_every_expression_asks_for_metrics_that_exist() -> None:
    expressions = [rule["expr"] for rule in _rules()] + _targets()
    assert len(expressions) > 20
    assert {one: unknown for one in expressions if (unknown := _unknown_in(one))} == {}


def test_the_dashboard_shows_every_metric_but_those_that_others_contain() -> None:
    shown = {
        re.sub("_(bucket|count|sum)$", "", name) for one in _targets() for name in _names_in(one)
    }
    contained = {
        "outlast_tasks", "outlast_tasks_enqueued_total", "outlast_queue_paused",
        "outlast_recovery_duration_seconds",
    }  # fmt: skip
    assert METRICS.keys() - shown == contained


@pytest.mark.skipif(PROMTOOL is None, reason="promtool comes with Debian's package prometheus")
def test_promtool_takes_the_rules_and_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    rules = tmp_path / "panels.yml"
    expressions = [one.replace("$__rate_interval", "5m") for one in _targets()]
    recorded = [{"record": f"panel:{n}", "expr": one} for n, one in enumerate(expressions)]
    rules.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    for file, count in ((ALERTS, len(_rules())), (rules, len(recorded))):
        checked = subprocess.run(
            [PROMTOOL, "check", "rules", str(file)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert checked.returncode == 0, checked.stderr
        assert f"SUCCESS: {count} rules found" in checked.stdout


@pytest.mark.skipif(PROMTOOL is None, reason="promtool comes with Debian's package prometheus")
@pytest.mark.parametrize("paused", [0, 1])
def test_nobody_need_work_while_all_that_is_ready_is_paused_on_purpose(
    tmp_path: Path, paused: int
) -> None:
    assert PROMTOOL is not None
    series = {
        'outlast_queue_depth{instance="box", queue="mail"}': "5x20",
        'outlast_queue_depth{instance="box", queue="idle"}': "0x20",
        'outlast_workers{instance="box", state="alive"}': "0x20",
    }
    if paused:
        series['outlast_queue_paused{instance="box", queue="mail"}'] = "1x20"
    alerts = [
        {"exp_labels": {"instance": "box", "severity": "critical"},
         "exp_annotations": {"summary": "There is work on box, and no worker"}}
    ]  # fmt: skip
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": said} for name, said in series.items()],
        "alert_rule_test": [
            {"eval_time": "10m", "alertname": "OutlastNobodyWorks",
             "exp_alerts": [] if paused else alerts}
        ],
    }  # fmt: skip
    file = tmp_path / "case.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case]}))
    tested = subprocess.run(
        [PROMTOOL, "test", "rules", str(file)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_page_lists_every_metric_as_it_is() -> None:
    rows = re.findall(
        r"^\| `(outlast_\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", PAGE.read_text(), re.MULTILINE
    )
    listed = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)), text)
        for name, kind, labels, text in rows
    }
    assert listed == {
        name: (about.kind, about.labels, about.help) for name, about in METRICS.items()
    }
    assert list(listed) == list(METRICS), "in the same order"
