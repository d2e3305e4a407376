"""Uploads: a recording or a picture for a run's model."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from porism.web.context import Context
from porism.web.uploads import MEDIA_TYPES

router = APIRouter(prefix="/api")
BODY = {"requestBody": {"required": True, "content": {kind: {} for kind in MEDIA_TYPES}}}


class UploadBody(BaseModel):
    """The name under which a file waits for the request that uses it, and until when."""

    upload: str
    bytes: int
    expires: float


@router.post("/uploads", status_code=201, openapi_extra=BODY)
async def receive(request: Request, context: Context) -> UploadBody:
    """Take a file as the raw body of the request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    found = await context.uploads.store(kind, request.stream())
    return UploadBody(upload=found.id, bytes=found.bytes, expires=found.expires)
