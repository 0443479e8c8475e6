"""The way in: what was checked and encoded is handed to the store in one transaction."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.task import Task, Waits
from outlast.errors import (
    InvalidInput,
    InvalidTransition,
    OutcomeUnknown,
    StoreError,
    TaskNotFound,
)
from outlast.settings import Settings
from outlast.store.new_tasks import NewTask
from outlast.store.records import Statement
from outlast.store.session import Session
from outlast.tasks import enqueue_input
from outlast.tasks.enqueue_input import (
    DEFAULT_QUEUE,
    MAX_PRIORITY,
    Options,
    checked_statements,
    make_options,
    new_task,
    template_of,
)
from outlast.tasks.ids import new_id
from outlast.tasks.tracing import Tracing, begun_sending, ended_with

__all__ = [
    "DEFAULT_QUEUE",
    "MAX_PRIORITY",
    "Options",
    "check",
    "checked_statements",
    "enqueue",
    "enqueue_many",
    "enqueue_soon",
    "existing",
    "make_options",
    "retry",
]


class Unread(NamedTuple):
    """A task that is stored and may have been there before; as it would be if it is new."""

    id: str
    as_new: Task


TaskOrUnread = Task | Unread

BULK_LIMIT = 100_000
CHUNK = 10_000

_just_stored = Task.just_stored


class Opener(Protocol):
    """Knows the settings and the time before the store is open, and opens it when told."""

    @property
    def settings(self) -> Settings:
        """The settings of the caller's object."""
        ...

    @property
    def tracing(self) -> Tracing | None:
        """Who is told of enqueues."""
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
    waits: Waits | None = None,
) -> Task:
    """Store one task and return it, or the task its idempotency key already stands for."""
    now, settings = opener.now(), opener.settings
    new = new_task(kind, payload, options, settings, now, task_id=task_id, key=key)
    also = () if options.also == () else checked_statements(options.also)
    session = opener.serve()
    if opener.tracing is None:
        (stored_id,) = session.store.add((new,), now, also)
    else:
        (stored_id,) = _traced(opener, (new,), now, also)
    if key is not None and (task_id is not None or stored_id != new.id):
        found = read(session, Unread(stored_id, as_task(new._replace(id=stored_id))))
        return found if waits is None else found.waiting_by(waits)
    return _just_stored(stored_id, new, waits)


def _traced(
    opener: Opener, new: Sequence[NewTask], now: Instant, also: Sequence[Statement]
) -> list[str]:
    sending = begun_sending(opener.tracing, new)
    with ended_with(sending):
        trace = None if sending is None else sending.trace
        return opener.serve().store.add(new, now, also, trace)


def read(session: Session, unread: Unread) -> Task:
    """A task that the commit just made certain: that it is gone, or unreadable, is no refusal."""
    try:
        return existing(session, unread.id)
    except TaskNotFound:
        return unread.as_new
    except StoreError as error:
        raise OutcomeUnknown([unread.id], error) from error


async def enqueue_soon(
    opener: Opener,
    kind: str,
    payload: Any,
    options: Options,
    *,
    task_id: str | None,
    key: str | None,
    waits: Waits | None = None,
) -> TaskOrUnread:
    """Await a new task, or one that was perhaps there already and is to be read."""
    now, settings = opener.now(), opener.settings
    new = new_task(kind, payload, options, settings, now, task_id=task_id, key=key)
    also = () if options.also == () else checked_statements(options.also)
    store = opener.serve().store
    if opener.tracing is None:
        (stored_id,) = await store.add_soon((new,), now, also)
    else:
        sending = begun_sending(opener.tracing, (new,))
        with ended_with(sending):
            trace = None if sending is None else sending.trace
            (stored_id,) = await store.add_soon((new,), now, also, trace)
    if key is not None and (task_id is not None or stored_id != new.id):
        return Unread(stored_id, as_task(new._replace(id=stored_id)))
    return _just_stored(stored_id, new, waits)


def check(
    opener: Opener,
    kind: str,
    payload: Any,
    options: Options,
    *,
    task_id: str | None,
    key: str | None,
) -> None:
    """Refuse what cannot be stored before anything is opened."""
    new_task(kind, payload, options, opener.settings, opener.now(), task_id=task_id, key=key)
    checked_statements(options.also)


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
    template = template_of(kind, options, opener.settings, now)
    also = checked_statements(options.also)
    if isinstance(payloads, str | bytes | dict) or not isinstance(payloads, Iterable):
        raise InvalidInput(f"payloads must be a list of payloads, not a {type(payloads).__name__}")
    if chunked and also:
        raise InvalidInput("also needs one transaction; leave out chunked=True")
    chunks = enqueue_input.in_chunks(
        template, payloads, task_ids, keys, opener.settings,
        created_ms=now.utc_ms, size=CHUNK if chunked else BULK_LIMIT + 1,
    )  # fmt: skip
    ids: list[str] = []
    try:
        for chunk in chunks:
            if len(chunk) > BULK_LIMIT:
                raise InvalidInput(
                    f"more than {BULK_LIMIT} tasks do not fit one transaction; pass chunked=True,"
                    f" which commits every {CHUNK}"
                )
            ids += _traced(opener, chunk, now, also)
    except BaseException as error:
        # Whoever's it is, that of the caller's own generator too, it says what came before it.
        if ids:
            error.add_note(f"at least the first {len(ids)} tasks are stored")
        raise
    if also and not ids:
        raise InvalidInput("also goes with at least one task; there were no payloads")
    return ids


def retry(session: Session, task_id: str) -> Task:
    """Run a final task anew as a linked clone; final stays final."""
    original = existing(session, task_id)
    if not original.is_final:
        raise InvalidTransition(
            f"task {task_id} is {original.status}; only a final task can be retried"
        )
    now = session.now()
    new = clone_of(original, now)
    session.store.add([new], now)
    return as_task(new)


def clone_of(original: Task, now: Instant) -> NewTask:
    """The same work once more, as a task that names its original."""
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
        created_ms=now.utc_ms,
        retry_of=original.id,
    )
    return new._replace(payload_sum=codec.payload_sum(new.id, new.kind, new.payload))


def existing(session: Session, task_id: str) -> Task:
    """The task, or TaskNotFound."""
    found = session.store.get(task_id)
    if found is None:
        raise TaskNotFound(task_id)
    return found


def as_task(new: NewTask) -> Task:
    """The record of a task just stored, which is made when it is looked at."""
    return _just_stored(new.id, new)
