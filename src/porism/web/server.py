"""The server of the page: uvicorn, which lets open pages go before it ends."""

import asyncio
import socket

from uvicorn import Config, Server

from porism.web.app import create_app
from porism.web.context import ServerContext
from porism.web.settings import ServerSettings

GRACE = 2
"""Seconds that answers on their way have when the server ends."""


class PageServer(Server):
    """Ends the streams of open pages first, for which it would wait, and closes every connection."""

    def __init__(self, settings: ServerSettings) -> None:
        app = create_app(settings)
        self.context: ServerContext = app.state.context
        config = Config(app, log_level="warning", timeout_graceful_shutdown=GRACE, server_header=False)
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.context.watcher.end_all()
        await super().shutdown(sockets)
        # One that came as the server ended is not asked to close: a browser would wait for an answer there.
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
