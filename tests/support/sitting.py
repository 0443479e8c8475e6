"""A process that others have to wait for: it sits in a transaction until it is told to go on."""


def sits_in_a_transaction(path: str) -> None:
    """For a `Child`; says where it sits, and the id of its task when it was let go."""
    from outlast import Outlast
    from outlast.host import probe_points
    from tests.support.childside import hear, say

    def pause(name: str) -> None:
        if name == "enqueue.written":
            say(name)
            hear()

    app = Outlast(path).open()
    probe_points.arm(pause)
    say(app.enqueue("work", id="slow").id)
