"""Jobs: what is running, what came of it, and cancelling."""

from typing import Annotated

from fastapi import APIRouter, Path

from porism.web.context import Context
from porism.web.routes.job_answers import JobBody, accepted

router = APIRouter(prefix="/api/jobs")
JobId = Annotated[str, Path(pattern=r"^[\w-]{1,40}$")]


@router.get("", response_model_exclude_none=True)
async def read_jobs(context: Context) -> list[JobBody]:
    """All jobs that are kept, the newest first; without results."""
    return [accepted(job).model_copy(update={"result": None}) for job in context.jobs.listed()]


@router.get("/{job}", response_model_exclude_none=True)
async def read_job(job: JobId, context: Context) -> JobBody:
    """One job, with its result once it is done."""
    return accepted(context.jobs.find(job))


@router.delete("/{job}", response_model_exclude_none=True)
async def cancel_job(job: JobId, context: Context) -> JobBody:
    """Cancel a job that waits or runs; one that has ended stays as it is."""
    return accepted(context.jobs.cancel(job))
