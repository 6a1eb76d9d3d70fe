"""`palaver pokemon install` and `palaver pokemon serve`: the simulator of the Pokémon environments."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from palaver.cli.output import note, say

SERVE = """Run the package's own server on this machine, until Ctrl-C.

It listens on 127.0.0.1 alone. Any free name may log in, without a password; it asks no login server and sends nothing
anywhere. Ratings and logs are gone when it ends.

[bold]Examples[/bold]

[cyan]palaver pokemon serve[/cyan]

[cyan]palaver pokemon serve --port 8123[/cyan]
"""
INSTALL = """Install the simulator, once: about 160 MB, a minute. It needs Node.js 20 or newer.

Without Node.js: [cyan]pip install 'palaver[node]'[/cyan] brings one.

[bold]Example[/bold]

[cyan]palaver pokemon install[/cyan]
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("install", help=INSTALL)(install)
    app.command("serve", help=SERVE)(serve)


def install() -> None:
    """Install the simulator."""
    from palaver.envs.pokemon.showdown.install import folder, install, present, version

    if not present():
        note(f"installing pokemon-showdown {version()} into {folder()} ...")
    say(f"pokemon-showdown {version()} is in {install()}")


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="To listen on; 0 takes a free one.")] = 8000,
    simulators: Annotated[int, typer.Option(min=1, help="Processes that simulate battles.")] = 1,
) -> None:
    """Run a server."""
    from palaver.envs.pokemon.showdown.server import Server

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that its folder is removed then too
    note("starting Showdown's server ...")
    with Server(port, simulators) as server:
        say(f"listening at {server.address} (in a browser: http://127.0.0.1:{server.port}); Ctrl-C ends it")
        server.wait()
