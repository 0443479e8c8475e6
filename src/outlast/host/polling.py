"""Sleep until a descriptor is ready."""

import select
from collections.abc import Container, Iterable


def wait_until_readable(
    descriptors: Iterable[int], timeout_seconds: float, unsent: Container[int] = ()
) -> None:
    """Sleep until one of them has something to read, or room for what is `unsent`, or the time is
    up; their numbers may be as high as those of a busy process are."""
    poll = select.poll()
    for descriptor in descriptors:
        also = select.POLLOUT if descriptor in unsent else 0
        poll.register(descriptor, select.POLLIN | also)
    poll.poll(None if timeout_seconds == float("inf") else max(0.0, timeout_seconds) * 1000)
