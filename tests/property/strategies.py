"""What the steps are drawn from: few names, so that steps meet on the same tasks and keys."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition

from tests.property.harness import PROCESS_OF, QUEUES, Harness, Held
from tests.property.records import VALUES, Entry, Options, Wish

apps = st.sampled_from(range(len(PROCESS_OF)))
kinds = st.sampled_from(["a", "b"])
queues = st.sampled_from(QUEUES)
groups = st.sampled_from([None, None, "g1", "g2"])
delays = st.sampled_from([None, None, 0, 1000, 10_000])
waits = st.sampled_from([None, 0, 0, 1000])
workers = st.sampled_from(["w1", "w1", "w2"])
names_of_values = st.sampled_from(sorted(VALUES))

options = st.builds(
    Options,
    kind=kinds,
    queue=queues,
    priority=st.integers(-1, 1),
    group=groups,
    max_retries=st.sampled_from([None, 0, 1, 2, 3]),
    delay=delays,
    run_at=st.booleans(),
)
entries = st.builds(
    Entry,
    named=names_of_values,
    id=st.sampled_from([None, None, None, "t1", "t2", "t3"]),
    key=st.sampled_from([None, None, "k1", "k2"]),
)
wishes = st.builds(
    Wish,
    worker=workers,
    limit=st.integers(1, 5),
    queues=st.sampled_from([("q1", "q2"), ("q2", "q1"), ("q1",)]),
    kinds=st.sampled_from([None, None, None, ("a",), ("b", "a"), ()]),
    group=st.sampled_from([None, None, None, "g1"]),
    lease_ms=st.sampled_from([None, 2000, 20_000]),
)


def _some_lease(machine: Harness) -> st.SearchStrategy[Held]:
    """Current ones, ones that were overtaken by a newer lease, and any."""
    current = [one for one in machine.held if one.expected.current]
    overtaken = [one for one in machine.held if one.expected.overtaken]
    return st.one_of(
        st.sampled_from(current or machine.held),
        st.sampled_from(overtaken or machine.held),
        st.sampled_from(machine.held),
    )


def _batch(machine: Harness) -> st.SearchStrategy[list[Held]]:
    """Leases that one object handed out: good and stale, also on one task, also one twice."""
    app = st.sampled_from(sorted({one.app for one in machine.held}))
    return app.flatmap(lambda app: _batch_of([one for one in machine.held if one.app == app]))


def _batch_of(held: list[Held]) -> st.SearchStrategy[list[Held]]:
    running = [one for one in held if one.expected.current or one.expected.overtaken]
    return st.lists(
        st.sampled_from(running or held) | st.sampled_from(held), min_size=1, max_size=6
    )


leases: st.SearchStrategy[Held] = st.runner().flatmap(_some_lease)
batches: st.SearchStrategy[list[Held]] = st.runner().flatmap(_batch)
ids: st.SearchStrategy[str] = st.runner().flatmap(
    lambda machine: st.sampled_from([*machine.ids(), "nobody"])
)
final_ids: st.SearchStrategy[str] = st.runner().flatmap(
    lambda machine: st.sampled_from([task.id for task in machine.model.final()])
)
earlier: st.SearchStrategy[tuple[Options, Entry]] = st.runner().flatmap(
    lambda machine: st.sampled_from(machine.said)
)
with_leases = precondition(lambda machine: machine.held)
with_tasks = precondition(lambda machine: machine.model.tasks)
with_final = precondition(lambda machine: machine.model.final())
with_ready = precondition(lambda machine: machine.model.ready())
at_work = precondition(lambda machine: machine.model.running())
