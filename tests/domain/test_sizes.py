import pytest

from outlast import InvalidInput
from outlast.domain.size import size_bytes


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (1, 1),
        (1 << 30, 1 << 30),
        ("7B", 7),
        ("512MiB", 512 << 20),
        ("512 MiB", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("2KB", 2000),
        ("2KiB", 2048),
        ("3GB", 3 * 10**9),
        ("1TB", 10**12),
    ],
)
def test_a_size_is_bytes_or_text_with_a_unit(written: int | str, expected: int) -> None:
    assert size_bytes(written, "memory_limit") == expected


@pytest.mark.parametrize(
    "wrong", [0, -1, True, 1.5, None, "", "512", "MiB", "1 Mib", "0B", 1 << 60]
)
def test_a_wrong_size_is_refused_by_the_name_of_its_argument(wrong: object) -> None:
    with pytest.raises(InvalidInput, match=r"^memory_limit must "):
        size_bytes(wrong, "memory_limit")  # type: ignore[arg-type]
