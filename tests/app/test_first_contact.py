from outlast import Outlast
from tests.support.children import Child
from tests.support.foreign import assert_sound


def test_a_task_goes_in_is_claimed_and_completed(app: Outlast) -> None:
    task = app.enqueue("greet", {"name": "Ada"})
    (lease,) = app.claim("w1")
    assert lease.task_id == task.id
    assert lease.payload == {"name": "Ada"}
    assert lease.complete({"said": "hello"})
    assert app.get(task.id).result == {"said": "hello"}
    app.close()
    assert_sound(app.path)


def _claims_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("greet", id="t1")
    (lease,) = app.claim("w1")
    say(lease.task_id)
    hear()


def test_a_killed_workers_task_comes_back_with_the_next_claim(app: Outlast) -> None:
    with Child(_claims_and_waits, app.path) as child:
        assert child.hear() == "t1"
        assert app.claim("w2") == []
        child.kill()
        (lease,) = app.claim("w2")
        assert (lease.task_id, lease.attempt) == ("t1", 2)
        assert app.get("t1").recovery_count == 1
