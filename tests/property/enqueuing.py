"""The rules by which work comes in."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.property.harness import Harness, Outcome, outcome_of
from tests.property.records import Entry, Options, Task
from tests.property.strategies import apps, earlier, entries, final_ids, ids, options, with_final


class Enqueuing(Harness):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[Options, Entry]] = []

    @rule(app=apps, options=options, entry=entries)
    def enqueue(self, app: int, options: Options, entry: Entry) -> None:
        self.said.append((options, entry))
        came = outcome_of(
            lambda: self.apps[app].enqueue(
                options.kind,
                entry.payload,
                **self._as_arguments(options),
                id=entry.id,
                idempotency_key=entry.key,
            )
        )
        if came.refusal is None:
            assert came.value == self.apps[app].get(came.value.id)
            came = Outcome([came.value.id])
        self._enqueued(app, came, options, [entry])

    @precondition(lambda machine: machine.said)
    @rule(app=apps, earlier=earlier)
    def enqueue_again(self, app: int, earlier: tuple[Options, Entry]) -> None:
        """To the letter, as one does who has heard no answer."""
        self.enqueue(app, *earlier)

    @rule(
        app=apps,
        options=options,
        batch=st.lists(entries, max_size=4),
        give_ids=st.booleans(),
        give_keys=st.booleans(),
    )
    def enqueue_many(
        self, app: int, options: Options, batch: list[Entry], give_ids: bool, give_keys: bool
    ) -> None:
        """Ids and keys are given to all of a batch or to none of it."""
        batch = [
            Entry(
                entry.named,
                id=entry.id or f"own {self.looks}.{n}" if give_ids else None,
                key=entry.key or f"key {self.looks}.{n}" if give_keys else None,
            )
            for n, entry in enumerate(batch)
        ]
        came = outcome_of(
            lambda: self.apps[app].enqueue_many(
                options.kind,
                [entry.payload for entry in batch],
                **self._as_arguments(options),
                id=[entry.id or "" for entry in batch] if give_ids else None,
                idempotency_key=[entry.key or "" for entry in batch] if give_keys else None,
            )
        )
        self._enqueued(app, came, options, batch)

    @with_final
    @rule(app=apps, task_id=final_ids | ids)
    def retry(self, app: int, task_id: str) -> None:
        came = outcome_of(lambda: self.apps[app].retry(task_id).id)
        self.model.serve(app)
        clone_id = came.value or "unborn"
        self.agree_on(came, outcome_of(lambda: self.model.retry(task_id, clone_id)))

    def _as_arguments(self, options: Options) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "queue": options.queue,
            "priority": options.priority,
            "group": options.group,
            "max_retries": options.max_retries,
        }
        if options.delay is not None and options.run_at:
            now = datetime.fromtimestamp(self.model.utc / 1000, UTC)
            arguments["run_at"] = now + timedelta(milliseconds=options.delay)
        elif options.delay is not None:
            arguments["delay"] = options.delay / 1000
        return arguments

    def _enqueued(self, app: int, came: Outcome, options: Options, batch: list[Entry]) -> None:
        """The model takes over the ids that the queue made up, if it stored anything."""
        made = came.value if came.refusal is None else [f"unborn {n}" for n in range(len(batch))]
        named = [replace(entry, id=entry.id or made[n]) for n, entry in enumerate(batch)]
        new = [(self._task(options, entry), entry.key) for entry in named]
        if batch:
            self.model.serve(app)
        self.agree_on(came, outcome_of(lambda: self.model.enqueue(new)))

    def _task(self, options: Options, entry: Entry) -> Task:
        default = self.model.rules.max_retries
        return Task(
            entry.id or "",
            kind=options.kind,
            payload=entry.payload,
            queue=options.queue,
            priority=options.priority,
            group=options.group,
            max_retries=default if options.max_retries is None else options.max_retries,
            parked="delay" if options.delay else None,
            not_before=self.model.utc + options.delay if options.delay else None,
        )
