"""The server of the page: uvicorn, which lets open pages go before it ends."""

import socket

from uvicorn import Config, Server

from porism.web.app import create_app
from porism.web.context import ServerContext
from porism.web.settings import ServerSettings

GRACE = 2
"""Seconds that answers on their way have when the server ends."""


class PageServer(Server):
    """Ends the streams of open pages first: it would wait for them."""

    def __init__(self, settings: ServerSettings) -> None:
        app = create_app(settings)
        self.context: ServerContext = app.state.context
        config = Config(app, log_level="warning", timeout_graceful_shutdown=GRACE, server_header=False)
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.context.watcher.end_all()
        await super().shutdown(sockets)
