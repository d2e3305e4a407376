"""Jobs as answers: what POST returns at once, and what GET and DELETE of a job say."""

from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from porism.web.jobs import PageJob
from porism.web.refusals import ErrorBody


class JobProgress(BaseModel):
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
    progress: JobProgress
    seconds: float
    result: dict[str, Any] | None = None
    error: ErrorBody | None = None


class _Accepted(TypedDict):
    status_code: int
    response_model_exclude_none: bool


ACCEPTED: _Accepted = {"status_code": 202, "response_model_exclude_none": True}


def accepted(job: PageJob) -> JobBody:
    return JobBody.model_validate(job.to_json())
