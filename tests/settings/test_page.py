"""docs/settings.md lists every knob as it is, and its examples are files that load."""

import dataclasses
from types import MappingProxyType

from outlast import Settings
from outlast.settings import keys, load
from tests.docs.pages import DOCS, blocks, section, spans, table
from tests.settings.conftest import Write

PAGE = DOCS / "settings.md"


def test_the_page_lists_every_knob_with_its_default_and_its_variable() -> None:
    rows = table(section(PAGE, "Every setting"))[1:]
    written = [
        (name.strip("`"), default.strip("`"), variable) for name, default, variable, _ in rows
    ]
    defaults = {
        field.name: getattr(Settings(), field.name) for field in dataclasses.fields(Settings)
    }
    assert written == [
        (name, _shown(value), f"`OUTLAST_{name.upper()}`") for name, value in defaults.items()
    ]
    assert all(len(row[-1].split()) > 3 and row[-1].endswith(".") for row in rows)


def _shown(value: object) -> str:
    if isinstance(value, MappingProxyType):
        return repr(dict(value))
    return f'"{value}"' if isinstance(value, str) else repr(value)


def test_the_page_lists_every_nested_key_with_its_knob() -> None:
    rows = table(section(PAGE, "The file"))[1:]
    nested = {key.strip("`"): meaning for key, meaning in rows}
    for key, knob in keys.KNOB_OF_NESTED_KEY.items():
        assert nested.pop(key) == f"`{knob}`"
    assert spans(nested.pop(keys.STALE_MULTIPLIER_KEY)) == ["heartbeat_stale_seconds"]
    assert nested == {}


def test_every_other_variable_and_key_is_on_the_page() -> None:
    words = set(spans(PAGE.read_text(encoding="utf-8")))
    assert words >= {keys.FILE_VARIABLE, keys.STORE_VARIABLE, keys.STORE}
    assert f"{keys.DEBUG_VARIABLE}=1" in words


def test_the_two_files_on_the_page_load_and_mean_the_same(write: Write) -> None:
    (toml,), (yaml,) = (list(blocks(PAGE, language)) for language in ("toml", "yaml"))
    loaded = load(write(toml.text, "my.toml"), {})
    assert loaded.settings == Settings(
        lease_seconds=600, max_retries=5, lease_seconds_by_kind={"render": 3600}
    )
    assert loaded[:2] == load(write(yaml.text, "my.yaml"), {})[:2]
    assert loaded.store is not None
    assert loaded.store.endswith("/work.db")
