"""What every address of the server works with: its settings, the catalogue, the runs, jobs and uploads."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from porism.web.catalogue import Catalogue
from porism.web.jobs import Jobs
from porism.web.runs import RunTable
from porism.web.settings import ServerSettings
from porism.web.static_files import StaticFiles
from porism.web.uploads import Uploads
from porism.web.watching import Watcher


@dataclass(frozen=True)
class ServerContext:
    """One server's parts."""

    settings: ServerSettings
    catalogue: Catalogue
    static: StaticFiles
    runs: RunTable
    jobs: Jobs
    uploads: Uploads
    watcher: Watcher


async def _of(request: Request) -> ServerContext:
    # Asynchronous, since fastapi hands every other function to a thread: that would take longer than it does.
    found: ServerContext = request.app.state.context
    return found


Context = Annotated[ServerContext, Depends(_of)]
"""For the arguments of an address."""
