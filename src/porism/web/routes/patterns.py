"""Patterns of attention: who attends to whom, as a job."""

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator

from porism.web.context import Context
from porism.web.predictions import ATTENDING, check_model
from porism.web.refusals import Refusal
from porism.web.routes.job_answers import ACCEPTED, JobBody, accepted

router = APIRouter(prefix="/api")
RANDOM = "random"


class PatternsBody(BaseModel):
    """A text, and how it is attended to. source: a run with attention, or `random` for seeded random vectors."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(max_length=10_000)]
    source: Annotated[str, Field(max_length=500)] = RANDOM
    layer: Annotated[int, Field(ge=1, le=99)] = 1
    method: Literal["softmax", "sliding", "block", "taylor", "hybrid"] = "taylor"
    K: Annotated[int, Field(ge=2, le=12)] = 2
    W: Annotated[int, Field(ge=1, le=64)] = 4

    @field_validator("K")
    @classmethod
    def _is_even(cls, order: int) -> int:
        if order % 2:
            raise ValueError("an odd order of the series can make weights negative: choose 2, 4, 6 and so on")
        return order


@router.post("/patterns", **ACCEPTED)
async def patterns(request: Request, body: PatternsBody, context: Context) -> JobBody:
    """The attention weights of every head on a text, by softmax and by a cheaper method, and how far they differ."""
    if not body.text.split():
        raise Refusal(422, "empty", "the text has no words.", "Type a sentence.", field="text")
    payload = body.model_dump()
    if body.source not in ("", RANDOM):
        path, record = context.runs.whole(body.source, "source")
        check_model(record, context.settings)
        if record.facts.task != "language" or record.fields.get("model") not in ATTENDING:
            raise Refusal(422, "no_attention", f"{body.source} is no language model with attention.", field="source")
        payload["path"] = str(path)
    return accepted(context.jobs.submit("patterns", "patterns of attention", payload, request))
