"""porism serve: the page in a browser."""

import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import UseAppendAction, arg

from porism.cli.options import Json, optional
from porism.errors import MissingExtra, RecipeError

if TYPE_CHECKING:
    from porism.web.server import PageServer
    from porism.web.settings import ServerSettings

LARGEST_PORT = 65_535


@dataclass(kw_only=True)
class ServeCommand:
    """Show costs, patterns of attention, trained models, comparisons and the ledger of claims in a browser.

    $ porism serve
    $ porism serve --port 9000 --runs experiments
    $ porism serve --allow torch.nn:LSTM --allow my_model.py:Net     modules of your own may be costed there
    $ porism serve --host 0.0.0.0                                    for other machines too: the link has a token
    """

    port: Annotated[int, arg(metavar="N")] = 8765
    """Where it listens. 0 takes a free one."""
    host: Annotated[str, arg(metavar="ADDRESS")] = "127.0.0.1"
    """Who can connect: this machine alone, or with 0.0.0.0 others too, who need the token of the printed link."""
    runs: Annotated[Path, arg(metavar="FOLDER")] = Path("runs")
    """The folder whose runs are shown. It need not be there yet."""
    allow: Annotated[UseAppendAction[list[str]], arg(metavar="PACKAGE.MODULE:NAME")] = field(default_factory=list)
    """A module of yours that the page may import and cost; also FILE.py:NAME and hf:FOLDER. Once for each."""
    token: Annotated[bool, optional()] = False
    """Ask for a token on this machine as well: others who use it can connect to the page otherwise."""
    json: Json = False
    """Print the address as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.web.settings import LOOPBACK, ServerSettings

        self._check()
        needs_token = self.token or self.host not in LOOPBACK
        with _listening(self.host, self.port) as listener:
            settings = ServerSettings(
                runs=self.runs,
                allowed=tuple(dict.fromkeys(self.allow)),
                host=self.host,
                port=listener.getsockname()[1],
                token=secrets.token_urlsafe(32) if needs_token else None,
            )
            server = _server(settings)
            console = console_for(self.json)
            tell(console, f"the page is at {settings.address}")
            tell(console, f"runs of {self.runs}. Ctrl-C ends it.")
            if self.json:
                print_json({"address": settings.address, "port": settings.port, "runs": str(self.runs)})
            # Ctrl-C is how it ends, and no mistake.
            with suppress(KeyboardInterrupt):
                server.run(sockets=[listener])
        return 0

    def _check(self) -> None:
        if not 0 <= self.port <= LARGEST_PORT:
            raise RecipeError(f"--port is {self.port}, expected 0 to {LARGEST_PORT}. 0 takes a free one.")
        if self.runs.exists() and not self.runs.is_dir():
            raise RecipeError(f"--runs: {self.runs} is a file. Name a folder that holds runs.")
        for name in self.allow:
            if ":" not in name or name.endswith(":"):
                raise RecipeError(f"--allow takes package.module:Name, got {name!r}. Write for instance torch.nn:LSTM.")


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens, or one line that says why not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP: asyncio sends at once over no other, and an answer would wait 40 ms for the one before it.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        taken = f"porism serve: {host}:{port} cannot be listened on: {error.strerror}."
        raise RecipeError(f"{taken} Choose another with --port, or --port 0 for a free one.") from error
    return listener


def _server(settings: "ServerSettings") -> "PageServer":
    """The server, not yet running."""
    try:
        from porism.web.server import PageServer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "starlette", "uvicorn", "pydantic"):
            raise
        raise MissingExtra(f'the page needs {error.name}, which is not installed: pip install "porism[web]"') from error
    return PageServer(settings)
