"""An address that is no room: a page that names the rooms. Scripts that asked for data get JSON, as everywhere."""

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from porism.web.context import ServerContext
from porism.web.refusals import by_status
from porism.web.rendering import render
from porism.web.rooms import Room

FOR_SCRIPTS = ("/api", "/static")
MOST_LETTERS = 100


def missing_room(path: str) -> Room:
    """A page for an address that nothing is at."""
    shown = path if len(path) <= MOST_LETTERS else f"{path[:MOST_LETTERS]}…"
    return Room("missing", "No such page", f"There is no page at {shown}", "These are the rooms:", {})


def install(app: FastAPI, context: ServerContext) -> None:
    """Answer what no route of an app answers."""

    async def missing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path
        if request.method != "GET" or any(path == start or path.startswith(f"{start}/") for start in FOR_SCRIPTS):
            return by_status(error)
        return HTMLResponse(render("missing.html", missing_room(path).context(context.static.base)), 404)

    # By its number, before the handler of all such errors. Refusals of the routes themselves do not come here.
    app.add_exception_handler(404, missing)
