"""Metrics as whoever scrapes them reads them: samples by name and labels."""

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]
Scraped = dict[tuple[str, Labels], float]
PROMTOOL = shutil.which("promtool")


def value_of(metrics: Mapping[str, Any], name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    return sum(
        float(sample["value"])
        for sample in metrics[name]["samples"]
        if labels.items() <= sample["labels"].items()
    )


def count_of(metrics: Mapping[str, Any], name: str, **labels: str) -> int:
    """How many observations a histogram has under these labels."""
    return sum(
        sample["count"]
        for sample in metrics[name]["samples"]
        if labels.items() <= sample["labels"].items()
    )


def scraped(text: str) -> Scraped:
    """Every sample of a text, as Prometheus' own parser reads it."""
    found: Scraped = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, f"{key} stands there twice"
            found[key] = sample.value
    return found


def rising(metrics: Mapping[str, Any]) -> Scraped:
    """All that may never fall: counters, and every number of a histogram."""
    found: Scraped = {}
    for name, about in metrics.items():
        for sample in about["samples"]:
            labels: Labels = tuple(sorted(sample["labels"].items()))
            if about["type"] == "counter":
                found[name, labels] = sample["value"]
            if about["type"] == "histogram":
                found[f"{name}_sum", labels] = sample["sum"]
                for bound, count in sample["buckets"].items():
                    found[name, (*labels, ("le", bound))] = count
    return found


def assert_none_fell(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    now = rising(after)
    fell = {
        key: (was, now.get(key)) for key, was in rising(before).items() if now.get(key, 0) < was
    }
    assert fell == {}


def assert_exposition_is_sound(text: str) -> None:
    """By promtool where there is one, and by Prometheus' own parser in any case."""
    assert scraped(text)
    if PROMTOOL is not None:
        checked = subprocess.run(
            [PROMTOOL, "check", "metrics"],
            input=text, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
