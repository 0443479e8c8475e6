"""The way in: check everything, encode it, then hand it to the store in one transaction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, Protocol

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.duration import LONGEST_MS, Duration, duration_ms
from outlast.domain.lifecycle import Parked
from outlast.domain.names import checked_name, checked_whole
from outlast.domain.task import Stored, Task, utc
from outlast.engine.ids import new_id
from outlast.engine.session import Session
from outlast.errors import InvalidInput, InvalidTransition, PayloadRejected, TaskNotFound
from outlast.settings import Settings
from outlast.store.future import Future
from outlast.store.records import Key, NewTask, Statement

Ids = Callable[[], list[str]]
TaskOrId = Task | str

BULK_LIMIT = 100_000
CHUNK = 10_000
MAX_PRIORITY = (1 << 31) - 1


class Options(NamedTuple):
    """What an enqueue may say beside kind and payload."""

    queue: str = "default"
    priority: int = 0
    group: str | None = None
    delay: Duration | None = None
    run_at: datetime | None = None
    max_retries: int | None = None
    also: Sequence[Statement] = ()


class Opener(Protocol):
    """Knows the settings and the time before the store is open, and opens it when told."""

    @property
    def settings(self) -> Settings:
        """The settings of the caller's object."""
        ...

    def now(self) -> Instant:
        """The present moment."""
        ...

    def serve(self) -> Session:
        """The store, opened to serve."""
        ...


def enqueue(
    opener: Opener,
    kind: str,
    payload: Any,
    options: Options,
    *,
    task_id: str | None,
    key: str | None,
) -> Task:
    """Store one task and return it, or the task its idempotency key already stands for."""
    found = enqueue_soon(opener, kind, payload, options, task_id=task_id, key=key).result()
    return found if isinstance(found, Task) else existing(opener.serve(), found)


def enqueue_soon(
    opener: Opener,
    kind: str,
    payload: Any,
    options: Options,
    *,
    task_id: str | None,
    key: str | None,
) -> Future[TaskOrId]:
    """The future of a new task, or of the id of one that was there already."""
    new, now, also = check(opener, kind, payload, options, task_id=task_id, key=key)

    def finish(stored: Ids) -> TaskOrId:
        (stored_id,) = stored()
        is_new = stored_id == new.id and (key is None or task_id is None)
        return _as_task(new, now) if is_new else stored_id

    return opener.serve().store.add_soon([new], now, also).then(finish)


def check(
    opener: Opener,
    kind: str,
    payload: Any,
    options: Options,
    *,
    task_id: str | None,
    key: str | None,
) -> tuple[NewTask, Instant, tuple[Statement, ...]]:
    """What one enqueue will store; refuses what cannot be stored before anything is opened."""
    now = opener.now()
    template = _template(kind, options, opener.settings, now)
    new = _fill(template, payload, task_id, key, opener.settings)
    return new, now, checked_statements(options.also)


def enqueue_many(
    opener: Opener,
    kind: str,
    payloads: Iterable[Any],
    options: Options,
    *,
    task_ids: Sequence[str] | None,
    keys: Sequence[str] | None,
    chunked: bool,
) -> list[str]:
    """Store many tasks of one kind: in one transaction, or in several if asked for."""
    now = opener.now()
    template = _template(kind, options, opener.settings, now)
    also = checked_statements(options.also)
    if isinstance(payloads, str | bytes | dict) or not isinstance(payloads, Iterable):
        raise InvalidInput(f"payloads must be a list of payloads, not a {type(payloads).__name__}")
    if chunked and also:
        raise InvalidInput("also needs one transaction; leave out chunked=True")
    rows = _rows(template, payloads, task_ids, keys, opener.settings)
    ids: list[str] = []
    size = CHUNK if chunked else BULK_LIMIT
    while chunk := _next_chunk(rows, size, len(ids)):
        if not chunked and next(rows, None) is not None:
            raise InvalidInput(
                f"more than {BULK_LIMIT} tasks do not fit one transaction; pass chunked=True,"
                f" which commits every {CHUNK}"
            )
        try:
            ids += opener.serve().store.add(chunk, now, also)
        except InvalidInput as error:
            raise _after_chunks(error, len(ids)) from error
    if also and not ids:
        raise InvalidInput("also goes with at least one task; there were no payloads")
    return ids


def _next_chunk(rows: Iterator[NewTask], size: int, stored: int) -> list[NewTask]:
    try:
        return list(islice(rows, size))
    except InvalidInput as error:
        raise _after_chunks(error, stored) from error


def _after_chunks(error: InvalidInput, stored: int) -> InvalidInput:
    """An error in a later chunk says what the earlier ones have stored."""
    return type(error)(f"{error} (the first {stored} tasks are stored)") if stored else error


def retry(session: Session, task_id: str) -> Task:
    """Run a final task anew as a linked clone; final stays final."""
    original = existing(session, task_id)
    if not original.is_final:
        raise InvalidTransition(
            f"task {task_id} is {original.status}; only a final task can be retried"
        )
    text, _ = original.stored_payload
    new = NewTask(
        id=new_id(),
        kind=original.kind,
        queue=original.queue,
        priority=original.priority,
        group=original.group,
        payload=codec.encode(original.payload, "payload") if text is not None else None,
        payload_sum=0,
        max_retries=original.max_retries,
        max_recoveries=original.max_recoveries,
        not_before_ms=None,
        retry_of=original.id,
    )
    new = new._replace(payload_sum=codec.payload_sum(new.id, new.kind, new.payload))
    now = session.now()
    session.store.add([new], now)
    return _as_task(new, now)


def existing(session: Session, task_id: str) -> Task:
    """The task, or TaskNotFound."""
    found = session.store.get(task_id)
    if found is None:
        raise TaskNotFound(task_id)
    return found


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


def _template(kind: str, options: Options, settings: Settings, now: Instant) -> NewTask:
    """All that the tasks of one call share, checked once."""
    queue, priority, group, delay, run_at, retries, _ = options
    max_retries = settings.max_retries if retries is None else retries
    return NewTask(
        "",
        checked_name(kind, "kind"),
        checked_name(queue, "queue"),
        checked_whole(priority, "priority", -MAX_PRIORITY, MAX_PRIORITY),
        None if group is None else checked_name(group, "group"),
        None,
        0,
        checked_whole(max_retries, "max_retries", 0, 1_000_000),
        settings.max_recovery_attempts,
        None if delay is None and run_at is None else _not_before(options, now),
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


def _rows(
    template: NewTask,
    payloads: Iterable[Any],
    task_ids: Sequence[str] | None,
    keys: Sequence[str] | None,
    settings: Settings,
) -> Iterator[NewTask]:
    for name, given in (("id", task_ids), ("idempotency_key", keys)):
        if isinstance(given, str):
            raise InvalidInput(f"{name} of enqueue_many takes a list, one for each payload")
    if task_ids is None and keys is None:
        yield from _filled(template, payloads)
        return
    n = -1
    for n, payload in enumerate(payloads):
        try:
            task_id = None if task_ids is None else task_ids[n]
            key = None if keys is None else keys[n]
        except IndexError:
            raise InvalidInput(_ONE_FOR_EACH) from None
        yield _fill(template, payload, task_id, key, settings, name=f"payload {n}")
    if any(given is not None and len(given) > n + 1 for given in (task_ids, keys)):
        raise InvalidInput(_ONE_FOR_EACH)


def _filled(template: NewTask, payloads: Iterable[Any]) -> Iterator[NewTask]:
    """What _fill makes of payloads that come with neither ids nor keys; quicker for many."""
    cast, encode = _mould(template), codec.encode
    for n, payload in enumerate(payloads):
        try:
            text = None if payload is None else encode(payload, "payload")
        except PayloadRejected:
            # Said once more, with its place in the list.
            encode(payload, f"payload {n}")
            raise
        yield cast(new_id(), text, None)


_PAYLOAD_AT, _KEY_AT = map(NewTask._fields.index, ("payload", "key"))
_SHARED_HEAD, _SHARED_TAIL = slice(1, _PAYLOAD_AT), slice(_PAYLOAD_AT + 2, _KEY_AT)


def _mould(template: NewTask) -> Callable[[str, str | None, Key | None], NewTask]:
    """Makes tasks that have all in common with a template but id, payload and key."""
    shared: tuple[Any, ...] = template
    kind, head, tail = template.kind, shared[_SHARED_HEAD], shared[_SHARED_TAIL]
    payload_sum, new_tuple = codec.payload_sum, tuple.__new__

    def cast(task_id: str, text: str | None, key: Key | None) -> NewTask:
        checksum = payload_sum(task_id, kind, text)
        return new_tuple(NewTask, (task_id, *head, text, checksum, *tail, key))

    return cast


_ONE_FOR_EACH = "id and idempotency_key of enqueue_many need exactly one entry for each payload"


def _fill(
    template: NewTask,
    payload: Any,
    task_id: str | None,
    key: str | None,
    settings: Settings,
    *,
    name: str = "payload",
) -> NewTask:
    """One task of a call: its own id, payload, checksum and key."""
    task_id = new_id() if task_id is None else checked_name(task_id, "id")
    text = None if payload is None else codec.encode(payload, name)
    reserved = None if key is None else _reserved(key, template.kind, text, settings)
    return _mould(template)(task_id, text, reserved)


def _reserved(key: str, kind: str, text: str | None, settings: Settings) -> Key:
    return Key(
        checked_name(key, "idempotency_key"),
        codec.request_hash(kind, None if text is None else codec.decode(text)),
        duration_ms(settings.idempotency_ttl_seconds, "idempotency_ttl_seconds"),
    )


def _as_task(new: NewTask, now: Instant) -> Task:
    """The record of a task just stored, without reading it back."""
    created = utc(now.utc_ms)
    delayed = new.not_before_ms is not None
    return Task.just_stored(
        id=new.id,
        kind=new.kind,
        queue=new.queue,
        priority=new.priority,
        group=new.group,
        parked=Parked.DELAY if delayed else None,
        max_retries=new.max_retries,
        max_recoveries=new.max_recoveries,
        retry_of=new.retry_of,
        created_at=created,
        updated_at=created,
        state_changed_at=created,
        not_before=utc(new.not_before_ms) if delayed else None,
        stored_payload=Stored(new.payload, new.payload_sum),
    )
