"""The explorer as a web server."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence

import uvicorn
from starlette.types import ASGIApp

from dqam.errors import InputError
from dqam.explorer.app import make_app
from dqam.release.release import Release

HOST, PORT = "127.0.0.1", 8000


def serve(
    releases: Sequence[tuple[str, Release]],
    host: str = HOST,
    port: int = PORT,
    tiles: str | None = None,
    attribution: str = "",
    on_start: Callable[[str], object] | None = None,
) -> None:
    """Show releases, each with a name, until the process is interrupted (Ctrl-C).

    port         0 for any free port
    tiles        URL of map tiles with {z}, {x} and {y}, which browsers will load; no background map by default
    attribution  whom to credit for the tiles
    on_start     called with the address of the page as soon as it can be opened
    """
    run(make_app(releases, tiles, attribution), host, port, on_start)


def run(app: ASGIApp, host: str, port: int, on_start: Callable[[str], object] | None = None) -> None:
    """Serve any app until the process is interrupted."""
    listening = _listen(host, port)
    settings = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
    name = f"[{host}]" if ":" in host else host
    try:
        _Server(settings, f"http://{name}:{listening.getsockname()[1]}/", on_start).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


class _Server(uvicorn.Server):
    """A server that calls back when it has started."""

    def __init__(self, config: uvicorn.Config, address: str, on_start: Callable[[str], object] | None) -> None:
        super().__init__(config)
        self.address, self.on_start = address, on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving."""
        await super().startup(sockets)
        if self.on_start is not None:
            self.on_start(self.address)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio then sends without delay
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot listen on {host}:{port} ({reason}); choose another port or host.") from None
    return listening
