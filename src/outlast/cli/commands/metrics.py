"""`outlast queue metrics` and `outlast metrics serve`: the store's numbers for monitoring."""

import click

from outlast.cli.command import Common, Verb, Verbs, with_common
from outlast.cli.exits import Exit
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.views import put


@click.command("metrics", cls=Verb)
@with_common
def queue_metrics(common: Common) -> int:
    """Print all metrics in Prometheus' text format, or as one JSON document."""
    with opened(common) as app:
        if common.as_json:
            put(text.safe_json(app.metrics(), indent=2))
            return Exit.FINE
        from outlast.metrics import exposition

        # A store that cannot be read is an error here, and not a metric.
        app.metrics()
        put(exposition(app).rstrip("\n"))
    return Exit.FINE


@click.group("metrics", cls=Verbs)
def metrics() -> None:
    """Answer the scrapes of a Prometheus server."""


@metrics.command("serve", cls=Verb)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="Where to listen (127.0.0.1).")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9464, metavar="PORT",
    help="On which port (9464); 0 takes a free one.",
)  # fmt: skip
@click.option("--allow-remote", is_flag=True, help="Accept an address that others can reach.")
@with_common
def serve(common: Common, /, *, host: str, port: int, allow_remote: bool) -> int:
    """Serve the metrics over HTTP until Ctrl-C; the store is only looked at."""
    from outlast.metrics import serve as begin

    with opened(common) as app:
        app.metrics()
        server, thread = begin(app, host, port, allow_remote=allow_remote)
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"metrics of {text.safe(str(app.path))} on http://{shown}:{server.server_port}")
        try:
            thread.join()
        except KeyboardInterrupt:
            server.shutdown()
            server.server_close()
            thread.join()
    return Exit.FINE
