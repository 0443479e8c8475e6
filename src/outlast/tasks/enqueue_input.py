"""What an enqueue is about to store: checked, encoded and summed, before anything is opened."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.budgets import MOST_RECOVERIES, MOST_RETRIES, checked_budget
from outlast.domain.codec import encode_payload
from outlast.domain.duration import LONGEST_MS, Duration, duration_ms
from outlast.domain.names import checked_name, checked_whole
from outlast.errors import InvalidInput
from outlast.settings import Settings
from outlast.store.new_tasks import AlikeTasks, Key, NewTask
from outlast.store.records import Statement
from outlast.tasks.ids import new_ids, uuid7

# So few that the interpreter's lock is not kept from others for long.
ENCODED_AT_ONCE = 125
MAX_PRIORITY = (1 << 31) - 1
DEFAULT_QUEUE = "default"

# Spares the detour by which a named tuple is usually made.
_new_tuple = tuple.__new__


class Options(NamedTuple):
    """What an enqueue may say beside kind and payload; None: what its function says, if any."""

    queue: str | None = None
    priority: int | None = None
    group: str | None = None
    delay: Duration | None = None
    run_at: datetime | None = None
    max_retries: int | None = None
    max_recoveries: int | None = None
    also: Sequence[Statement] = ()


_NO_OPTIONS = Options()

# Makes options of a tuple of all of them, without the detour by which a named tuple is made.
make_options = partial(_new_tuple, Options)

_ALSO = 'also takes a list of (sql, values) pairs such as ("INSERT INTO t VALUES (?)", (1,))'


def checked_statements(also: Sequence[Statement]) -> tuple[Statement, ...]:
    """The caller's statements, refused early if they are not pairs of text and values."""
    if also == ():
        return ()
    if not isinstance(also, tuple | list):
        raise InvalidInput(_ALSO)
    for item in also:
        is_pair = isinstance(item, tuple | list) and len(item) == 2
        if not is_pair or not isinstance(item[0], str) or not item[0].strip():
            raise InvalidInput(_ALSO)
        if not isinstance(item[1], tuple | list | dict):
            raise InvalidInput(_ALSO)
    return tuple((text, values) for text, values in also)


def new_task(
    kind: str,
    payload: Any,
    options: Options,
    settings: Settings,
    now: Instant,
    *,
    task_id: str | None,
    key: str | None,
) -> NewTask:
    """The task of a call for one."""
    if task_id is None and key is None and options == _NO_OPTIONS and type(kind) is str:
        # What is made of nearly every call, without the steps that the others need.
        before, after = _around_payload(kind, settings.max_retries)
        task_id = str(uuid7())
        text, checksum = encode_payload(task_id, kind, payload, "payload")
        fields = (task_id, *before, text, checksum, *after, now.utc_ms, None, None)
        return _new_tuple(NewTask, fields)
    template = template_of(kind, options, settings, now)
    return one(template, payload, task_id, key, settings, created_ms=now.utc_ms)


def template_of(kind: str, options: Options, settings: Settings, now: Instant) -> NewTask:
    """All that the tasks of one call share, checked once."""
    queue, priority, group, delay, run_at, retries, recoveries, _ = options
    if retries is None:
        retries = settings.max_retries
    try:
        template = _checked_once(kind, queue, priority, retries, recoveries)
    except TypeError:
        # What cannot be remembered is no name and no number.
        template = _checked_once.__wrapped__(kind, queue, priority, retries, recoveries)
    if group is None and delay is None and run_at is None:
        return template
    return template._replace(
        group=None if group is None else checked_name(group, "group"),
        not_before_ms=_not_before(options, now),
    )


@lru_cache(maxsize=128)
def _around_payload(kind: str, max_retries: int) -> tuple[tuple[Any, ...], ...]:
    """What a task that says nothing but its kind has before its payload, and after its sum."""
    template = _checked_once(kind, None, None, max_retries, None)
    return template[1:5], template[7:10]


@lru_cache(maxsize=128, typed=True)
def _checked_once(
    kind: str,
    queue: str | None,
    priority: int | None,
    max_retries: int,
    max_recoveries: int | None,
) -> NewTask:
    """Programs enqueue few kinds to few queues, so nearly every call finds this done."""
    return NewTask(
        "",
        checked_name(kind, "kind"),
        DEFAULT_QUEUE if queue is None else checked_name(queue, "queue"),
        0 if priority is None else checked_whole(priority, "priority", -MAX_PRIORITY, MAX_PRIORITY),
        None,
        None,
        0,
        checked_whole(max_retries, "max_retries", 0, MOST_RETRIES),
        checked_budget(max_recoveries, "max_recoveries", MOST_RECOVERIES),
        None,
        0,
    )


def _not_before(options: Options, now: Instant) -> int | None:
    if options.delay is not None and options.run_at is not None:
        raise InvalidInput("give delay or run_at, not both")
    if options.delay is not None:
        delay_ms = duration_ms(options.delay, "delay")
        return now.utc_ms + delay_ms if delay_ms else None
    if options.run_at is None:
        return None
    if not isinstance(options.run_at, datetime) or options.run_at.tzinfo is None:
        raise InvalidInput("run_at must be a datetime with a time zone, such as datetime.now(UTC)")
    try:
        at_ms = round(options.run_at.timestamp() * 1000)
    except (OverflowError, ValueError):
        at_ms = LONGEST_MS + 1
    if at_ms > now.utc_ms + LONGEST_MS:
        raise InvalidInput(f"run_at must be within a hundred years, not {options.run_at}")
    return at_ms if at_ms > now.utc_ms else None


def one(
    template: NewTask,
    payload: Any,
    task_id: str | None,
    key: str | None,
    settings: Settings,
    *,
    created_ms: int,
    name: str = "payload",
) -> NewTask:
    """One task of a call: its own id, payload, checksum and key."""
    (
        _, kind, queue, priority, group, _, _, max_retries, max_recoveries, not_before_ms, _, _, _,
    ) = template  # fmt: skip
    task_id = str(uuid7()) if task_id is None else checked_name(task_id, "id")
    text, checksum = encode_payload(task_id, kind, payload, name)
    return _new_tuple(
        NewTask,
        (
            task_id, kind, queue, priority, group, text, checksum, max_retries, max_recoveries,
            not_before_ms, created_ms, None,
            None if key is None else _reserved(key, kind, text, settings),
        ),
    )  # fmt: skip


def _reserved(key: str, kind: str, text: str | None, settings: Settings) -> Key:
    return Key(
        checked_name(key, "idempotency_key"),
        codec.request_hash(kind, None if text is None else codec.decode(text)),
        duration_ms(settings.idempotency_ttl_seconds, "idempotency_ttl_seconds"),
    )


_ONE_FOR_EACH = "id and idempotency_key of enqueue_many need exactly one entry for each payload"


def in_chunks(
    template: NewTask,
    payloads: Iterable[Any],
    task_ids: Sequence[str] | None,
    keys: Sequence[str] | None,
    settings: Settings,
    *,
    created_ms: int,
    size: int,
) -> Iterator[Sequence[NewTask]]:
    """The tasks of a call for many, so many at a time, each made when its chunk's turn comes."""
    for name, given in (("id", task_ids), ("idempotency_key", keys)):
        if given is not None and (isinstance(given, str) or not isinstance(given, Sequence)):
            raise InvalidInput(f"{name} of enqueue_many takes a list, one for each payload")
    template = template._replace(created_ms=created_ms)
    if task_ids is None and keys is None:
        yield from _alike(template, payloads, size)
        return
    rows = _each(template, payloads, task_ids, keys, settings)
    while chunk := list(islice(rows, size)):
        yield chunk


def _each(
    template: NewTask,
    payloads: Iterable[Any],
    task_ids: Sequence[str] | None,
    keys: Sequence[str] | None,
    settings: Settings,
) -> Iterator[NewTask]:
    n, created_ms = -1, template.created_ms
    for n, payload in enumerate(payloads):
        try:
            task_id = None if task_ids is None else task_ids[n]
            key = None if keys is None else keys[n]
        except IndexError:
            raise InvalidInput(_ONE_FOR_EACH) from None
        name = f"payload {n}"
        yield one(template, payload, task_id, key, settings, created_ms=created_ms, name=name)
    if any(given is not None and len(given) > n + 1 for given in (task_ids, keys)):
        raise InvalidInput(_ONE_FOR_EACH)


def _alike(template: NewTask, payloads: Iterable[Any], size: int) -> Iterator[AlikeTasks]:
    """What one() makes of payloads that come with neither ids nor keys; quicker for many."""
    waiting, first = iter(payloads), 0
    while True:
        ids: list[str] = []
        texts: list[str | None] = []
        while part := list(islice(waiting, min(ENCODED_AT_ONCE, size - len(ids)))):
            texts += _texts(part, first + len(ids))
            ids += new_ids(len(part))
        if not ids:
            return
        first += len(ids)
        yield AlikeTasks(template, ids, texts, codec.payload_sums(ids, template.kind, texts))


def _texts(payloads: list[Any], first: int) -> Sequence[str | None]:
    """Payloads as JSON; the first one that is refused is named by its place in the list."""
    texts = codec.encode_plain(payloads)
    if texts is not None:
        return texts if "null" not in texts else [None if t == "null" else t for t in texts]
    return [
        None if payload is None else codec.encode(payload, f"payload {n}")
        for n, payload in enumerate(payloads, first)
    ]
