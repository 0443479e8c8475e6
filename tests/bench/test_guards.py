"""The benchmark of the guards still finds every guard it takes out, and measures a whole flow."""

from pathlib import Path

import pytest

from bench import guards

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", guards.VARIANTS)
def test_the_flow_runs_without_this_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(guards, "TASKS", 200)
    assert min(guards.measure(tmp_path, name)) > 0


def test_a_guard_that_is_gone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = {"trigger no_more": guards.without_trigger("no_more")}
    monkeypatch.setattr(guards, "VARIANTS", variants)
    with pytest.raises(ValueError, match="no_more"):
        guards.make_store(tmp_path / "work.db", "trigger no_more")


def test_a_section_is_written_in_its_place() -> None:
    first = guards.with_section("# Benchmarks\n", "Guards", "one")
    assert first == "# Benchmarks\n\n## Guards\n\none\n"
    both = guards.with_section(first, "Claims", "two")
    again = guards.with_section(both, "Guards", "three")
    assert again == "# Benchmarks\n\n## Guards\n\nthree\n\n## Claims\n\ntwo\n"
    assert guards.with_section(again, "Guards", "three") == again
