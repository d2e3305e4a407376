"""Refusals: every error of the server is one JSON object that says what is wrong and what to do.

To a browser an address that is no room (`missing`), and what is refused at the door (`safety`), is a page.
"""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from porism.errors import PorismError


class ErrorBody(BaseModel):
    """What an answer above 399 says. field: the part of the request that is meant."""

    code: str
    message: str
    hint: str = ""
    field: str | None = None


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        hint: str = "",
        *,
        field: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}
        self.body = ErrorBody(code=code, message=message, hint=hint, field=field)

    def response(self) -> JSONResponse:
        return JSONResponse(self.body.model_dump(exclude_none=True), self.status, self.headers)


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 403, 404, 405, 409, 413, 415, 422, 429)
}
"""For the description of every address: what any of them may answer."""


def hint_of(error: PorismError) -> str:
    return error.advice.command_line if error.advice is not None else ""


def by_status(error: HTTPException) -> JSONResponse:
    """What starlette refuses, for want of an address or a method."""
    code = {404: "not_found", 405: "method"}.get(error.status_code, "refused")
    return Refusal(error.status_code, code, f"{error.detail}.", headers=dict(error.headers or {})).response()


def install(app: FastAPI) -> None:
    """Let all errors of an app be such objects."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refusal)
        return error.response()

    async def unreadable(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = [str(part) for part in first["loc"] if part not in ("body", "query")]
        name = ".".join(place)
        text = f"{name}: {first['msg']}." if name else f"{first['msg']}."
        return Refusal(422, "invalid", text, "See /openapi.json.", field=name or None).response()

    async def no_address(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return by_status(error)

    async def library(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, PorismError)
        return Refusal(409, type(error).__name__, error.problem or str(error), hint_of(error)).response()

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(RequestValidationError, unreadable)
    app.add_exception_handler(HTTPException, no_address)
    app.add_exception_handler(PorismError, library)
