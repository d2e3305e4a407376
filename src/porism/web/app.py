"""The app: all addresses, behind the checks of `safety`. It imports neither torch nor sympy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from porism.version import __version__
from porism.web import missing, refusals
from porism.web.caching import ETags
from porism.web.catalogue import catalogue
from porism.web.context import ServerContext
from porism.web.head import HeadAnswers
from porism.web.jobs import Jobs, PageJob
from porism.web.routes import claims, costs, events, jobs, pages, patterns, runs, uploads
from porism.web.runs import RunTable
from porism.web.safety import Safety
from porism.web.settings import ServerSettings
from porism.web.static_files import StaticFiles
from porism.web.uploads import Uploads
from porism.web.watching import Watcher

ROUTES = (pages, costs, patterns, runs, uploads, claims, jobs, events)


def create_app(settings: ServerSettings) -> FastAPI:
    """A server's app."""
    table = RunTable(settings.runs)
    watcher, files = Watcher(table), Uploads()

    def ended(job: PageJob) -> None:
        if job.upload is not None:
            files.remove(job.upload)

    queue = Jobs(watcher.wake_all, ended)
    context = ServerContext(settings, catalogue(), StaticFiles(), table, queue, files, watcher)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        queue.start(asyncio.get_running_loop())
        watcher.start()
        try:
            yield
        finally:
            await watcher.close()
            queue.close()
            files.close()

    app = FastAPI(
        title="Porism",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=refusals.REFUSALS,
    )
    app.state.context = context
    refusals.install(app)
    missing.install(app, context)
    for module in ROUTES:
        app.include_router(module.router)
    # The last added is the outermost.
    app.add_middleware(ETags)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.add_middleware(HeadAnswers)
    app.add_middleware(Safety, settings=settings)
    return app
