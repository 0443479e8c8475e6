"""Kill a worker in the middle of a task, and see what the next worker finds.

    ./run python examples/first.py           in a folder of its own that is gone afterwards
    ./run python examples/first.py work.db   in a store you can look into; may be repeated

Three documents are to be read page by page. A page costs time (think of a model that is paid by the
page), so a worker writes a checkpoint after each one. The first worker gets stuck on a page and is
ended with SIGKILL: no handler runs, nothing is cleaned up. The second one is merely started.
"""

import logging
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from outlast import Outlast, Settings, Task

DOCUMENTS = {"intro.pdf": 2, "survey.pdf": 4, "appendix.pdf": 2}
STUCK_ON = "survey.pdf page 3"


def main(store: str) -> int:
    # Any process that serves takes back what another lost, once the kernel tells of the death.
    # This one leaves that to the second worker, whose story is told here.
    app = Outlast(store, settings=Settings(detection_interval_seconds=0))
    group = f"reading-{uuid4().hex[:8]}"
    payloads = [{"name": name, "pages": pages} for name, pages in DOCUMENTS.items()]
    ids = app.enqueue_many("read", payloads, group=group)
    tell("main", f"{len(ids)} tasks are committed and synced to disk")

    first = start_worker(store, "w1", group, STUCK_ON)
    try:
        begun = watch(first, until=STUCK_ON)
    finally:
        first.send_signal(signal.SIGKILL)
    killed_at = time.monotonic()
    tell("main", f"kill -9 {first.pid}")
    first.wait()
    tell("main", "the store says: " + app.why(ids[1]))

    second = start_worker(store, "w2", group)
    begun += watch(second)
    code = second.wait()
    tell("main", f"all is done, {time.monotonic() - killed_at:.1f} s after the kill")

    tasks = [app.get(task_id) for task_id in ids]
    show(tasks, begun)
    done = app.group(group).done and begun == sum(DOCUMENTS.values()) + 1
    app.close()
    return 0 if done and code == 0 else 1


def work(store: str, name: str, group: str, stuck_on: str) -> None:
    """A worker: take a task, go on where its last checkpoint stands, finish it, take the next."""
    with Outlast(store) as app:
        while leases := app.claim(name, group=group):
            (lease,) = leases
            document, pages = lease.payload["name"], lease.payload["pages"]
            last = app.latest_checkpoint(lease.task_id, "iteration_end")
            done = last.data["page"] if last else 0
            seen = f"; {done} of {pages} pages are done already" if done else ""
            tell(name, f"{document}: attempt {lease.attempt}, token {lease.token}{seen}")
            for page in range(done + 1, pages + 1):
                tell(name, f"  reads {document} page {page}")
                time.sleep(60 if f"{document} page {page}" == stuck_on else 0.05)
                lease.checkpoint("iteration_end", {"page": page})
            lease.complete({"pages": pages})
            tell(name, f"  has completed {document}")


def start_worker(store: str, name: str, group: str, stuck_on: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--worker", store, name, group, stuck_on]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def watch(worker: subprocess.Popen[str], until: str | None = None) -> int:
    """Show what a worker says, to its end or to a certain line; count the pages it begins."""
    begun = 0
    assert worker.stdout is not None
    for line in worker.stdout:
        print(line, end="", flush=True)
        begun += "  reads " in line
        if until and line.rstrip().endswith(until):
            break
    return begun


def show(tasks: list[Task], begun: int) -> None:
    print(f"\n{'document':<14}{'status':<11}{'attempts':>8}{'crashes':>9}  finished by")
    for task in tasks:
        print(
            f"{task.payload['name']:<14}{task.status:<11}{task.attempt:>8}"
            f"{task.recovery_count:>9}  {task.last_worker}"
        )
    pages = sum(task.payload["pages"] for task in tasks)
    print(f"\n{pages} pages, {begun} begun: what a checkpoint holds was not read again.")


def tell(who: str, text: str) -> None:
    now = time.time()
    stamp = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 10) % 10}"
    print(f"{stamp} {who:<5} {text}", flush=True)


class Teller(logging.Handler):
    """Outlast says what it did through logging; here that joins the story."""

    def emit(self, record: logging.LogRecord) -> None:
        tell("log", record.getMessage())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        logging.getLogger("outlast").addHandler(Teller())
        work(*sys.argv[2:])
    elif sys.argv[1:]:
        sys.exit(main(str(Path(sys.argv[1]).absolute())))
    else:
        with tempfile.TemporaryDirectory() as folder:
            sys.exit(main(f"{folder}/work.db"))
