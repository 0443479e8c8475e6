"""The text that Prometheus scrapes: as text, and over HTTP on this machine's loopback."""

import ipaddress
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, start_http_server

from outlast.contrib.prometheus.collector import Measured, OutlastCollector
from outlast.errors import InvalidInput

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9464


def exposition(app: Measured) -> str:
    """All metrics of a store in Prometheus' text format."""
    return generate_latest(_registry(app)).decode()


def serve(
    app: Measured,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    allow_remote: bool = False,
) -> tuple[WSGIServer, Thread]:
    """Answer scrapes in a thread until its server is shut down; port 0 takes a free one.

    Whoever can reach it learns the names of queues, kinds and subscribers: that is nobody
    elsewhere, unless remote readers are allowed.
    """
    if not allow_remote and not is_loopback(host):
        raise InvalidInput(
            f"{host} can be reached from elsewhere, and metrics tell the names of queues and kinds;"
            " serve on 127.0.0.1, or allow it with --allow-remote (allow_remote=True)"
        )
    try:
        return start_http_server(port, host, registry=_registry(app))
    except (OSError, OverflowError) as error:
        raise InvalidInput(
            f"nothing can be served on {host} port {port} ({error}); choose another port"
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _registry(app: Measured) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(OutlastCollector(app))
    return registry
