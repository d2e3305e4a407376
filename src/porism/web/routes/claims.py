"""Claims: the ledger's statements, and checks of them as jobs."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from porism.errors import nearest
from porism.web.context import Context
from porism.web.refusals import Refusal
from porism.web.routes.job_answers import ACCEPTED, JobBody, accepted

router = APIRouter(prefix="/api/claims")


class CheckBody(BaseModel):
    """Claims to decide, by id."""

    model_config = ConfigDict(extra="forbid")

    ids: list[Annotated[str, Field(max_length=20)]] = Field(min_length=1, max_length=1000)


@router.get("")
def read_claims(context: Context) -> list[dict[str, Any]]:
    """All statements, by id."""
    return context.catalogue.claims


@router.post("/check", **ACCEPTED)
async def check(request: Request, body: CheckBody, context: Context) -> JobBody:
    """Decide claims, one after the other; an event tells of each."""
    known = [claim["id"] for claim in context.catalogue.claims]
    for number in body.ids:
        if number not in known:
            raise Refusal(404, "no_claim", f"there is no claim {number!r}. {nearest(number, known)}", field="ids")
    title = f"check of {body.ids[0]}" if len(body.ids) == 1 else f"check of {len(body.ids)} claims"
    return accepted(context.jobs.submit("check", title, body.model_dump(), request))
