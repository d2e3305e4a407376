"""The rooms: HTML with the headline and the tables already in it, and the files it loads."""

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from porism.web.context import Context
from porism.web.refusals import Refusal
from porism.web.rendering import render
from porism.web.rooms import Room, compare_room, cost_room, ledger_room, models_room, patterns_room

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}


def _page(room: Room, context: Context) -> HTMLResponse:
    return HTMLResponse(render(f"{room.name}.html", room.context(context.static.base)))


@router.get("/")
@router.get("/cost")
def cost(request: Request, context: Context) -> HTMLResponse:
    return _page(cost_room(request.query_params, context.catalogue, context.settings.allowed), context)


@router.get("/patterns")
def patterns(request: Request, context: Context) -> HTMLResponse:
    return _page(patterns_room(request.query_params, context.runs), context)


@router.get("/models")
def models(request: Request, context: Context) -> HTMLResponse:
    return _page(models_room(request.query_params, context.runs, context.catalogue), context)


@router.get("/compare")
def compare(request: Request, context: Context) -> HTMLResponse:
    return _page(compare_room(request.query_params, request.url.query, context.runs), context)


@router.get("/ledger")
def ledger(request: Request, context: Context) -> HTMLResponse:
    return _page(ledger_room(request.query_params, context.catalogue), context)


@router.get("/static/{version}/{name}")
def static_file(version: str, name: str, context: Context) -> Response:
    """A script or a style sheet, by a name that is listed."""
    files = context.static
    if name not in files.served:
        raise Refusal(404, "no_file", "there is no such file.")
    # Under an old address the content is a newer one, which must not be kept for it.
    headers = IMMUTABLE if files.base == f"/static/{version}" else {}
    return Response(files.served[name], media_type=files.media_type(name), headers=headers)
