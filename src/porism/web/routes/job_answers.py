"""Jobs as answers: what POST returns at once, and what GET and DELETE of a job say."""

from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from porism.web.jobs import Job
from porism.web.refusals import ErrorBody


class Progress(BaseModel):
    done: int = 0
    of: int | None = None
    unit: str = ""


class JobBody(BaseModel):
    """A job. position: how many are before it in its queue."""

    job: str
    kind: str
    title: str
    state: Literal["queued", "running", "done", "failed", "cancelled", "timed_out"]
    position: int
    progress: Progress
    seconds: float
    result: dict[str, Any] | None = None
    error: ErrorBody | None = None


class _Accepted(TypedDict):
    status_code: int
    response_model_exclude_none: bool


ACCEPTED: _Accepted = {"status_code": 202, "response_model_exclude_none": True}


def accepted(job: Job) -> JobBody:
    return JobBody.model_validate(job.to_json())
