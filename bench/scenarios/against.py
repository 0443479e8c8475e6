"""The other queues on SQLite, with syncing on and at their best settings, against ours."""

import importlib.metadata
import sys

from bench.load import Sizes
from bench.paired import Contestant, Rates, measure
from bench.peers import PEERS, Peer
from bench.results import Row, rated
from bench.scenarios import singly, working

AT_LEAST = {("consume", "huey"): 8.0}
OURS = "ours"


def installed() -> dict[str, Peer]:
    """Those that can be measured here; the others are named, for a missing one is no result."""
    found = {}
    for name, peer in PEERS.items():
        try:
            peer.version()
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is not installed; ./run bench installs it", file=sys.stderr)
        else:
            found[name] = peer
    return found


def enqueuing(peer: Peer, count: int) -> Contestant:
    return lambda folder: peer.enqueue_singly(folder, count)


def consuming(peer: Peer, count: int) -> Contestant:
    return lambda folder: peer.consume(folder, count)


def run(sizes: Sizes) -> list[Row]:
    peers = installed()
    if not peers:
        return []
    count = sizes.peers
    enqueue = {name: enqueuing(peer, count) for name, peer in peers.items()}
    consume = {name: consuming(peer, count) for name, peer in peers.items()}
    enqueued = measure({OURS: singly.ours(count), **enqueue}, sizes.blocks)
    consumed = measure({OURS: working.ours(sizes.working), **consume}, sizes.blocks)
    return [
        *(row("consume", name, peer, consumed) for name, peer in peers.items()),
        *(row("enqueue", name, peer, enqueued) for name, peer in peers.items()),
    ]


def row(verb: str, name: str, peer: Peer, rates: Rates) -> Row:
    doing = "claim + complete by hundreds" if verb == "consume" else "enqueue one by one"
    what = f"{doing}, against {name} {peer.version()}"
    bar = AT_LEAST.get((verb, name))
    return rated(what, rates, OURS, name, at_least=bar, note=peer.caveat)
