"""Runs: the list, one run, its report, a comparison, and what its model answers."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from porism.web.addresses import split_names
from porism.web.context import Context
from porism.web.predictions import check_prediction
from porism.web.refusals import Refusal
from porism.web.routes.job_answers import ACCEPTED, JobBody, accepted
from porism.web.run_details import run_details
from porism.web.safety import REPORT_POLICY

router = APIRouter(prefix="/api")
RunId = Annotated[str, Query(max_length=500)]
MOST_COMPARED = 32


class PredictBody(BaseModel):
    """What a run's model is to answer: a text, or an upload. checkpoint: as the run's `checkpoint.whole` names it."""

    model_config = ConfigDict(extra="forbid")

    run: Annotated[str, Field(max_length=500)]
    input: Annotated[str, Field(max_length=10_000)] | None = None
    upload: Annotated[str, Field(max_length=40)] | None = None
    options: dict[str, float | int | str] = Field(default={}, max_length=8)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    checkpoint: Annotated[str, Field(max_length=60)] | None = None


@router.get("/runs")
def read_runs(context: Context) -> list[dict[str, Any]]:
    """All runs in the runs folder, the newest first."""
    return [listed.row for listed in context.runs.listed().values()]


@router.get("/run")
def read_run(context: Context, id: RunId) -> dict[str, Any]:
    """One run."""
    _, record = context.runs.whole(id)
    return run_details(context.runs.find(id), record, context.catalogue)


@router.get("/run/report", response_class=Response, responses={200: {"content": {"text/html": {}}}})
def read_report(context: Context, id: RunId) -> Response:
    """A run's report, which can do nothing but be read."""
    file = context.runs.file(context.runs.find(id), "report.html")
    if file is None:
        raise Refusal(
            404,
            "no_report",
            f"{id} has no report.",
            f"Write it with: porism report {context.runs.folder / id}",
            field="id",
        )
    return Response(file.read_bytes(), media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})


@router.get("/compare")
def read_comparison(
    request: Request,
    context: Context,
    runs: Annotated[str, Query(max_length=10_000)],
    metric: Annotated[str, Query(max_length=100)] = "",
) -> dict[str, Any]:
    """Runs side by side. Those of another task, other data or another metric than the first are refused by name."""
    from porism.web.comparison import compare  # numpy comes with it, which the first page need not wait for

    names = split_names(request.url.query, "runs", context.runs.listed())[:MOST_COMPARED]
    records, refused = {}, []
    for name in dict.fromkeys(names):
        try:
            records[name] = context.runs.whole(name, "runs")[1]
        except Refusal as refusal:
            refused.append({"run": name, "why": refusal.body.message})
    if not records:
        why = refused[0]["why"] if refused else "no run was named."
        raise Refusal(404, "no_run", why, "Choose runs that are listed: /api/runs.", field="runs")
    found = compare(records, metric)
    return found | {"refused": refused + found["refused"]}


@router.post("/predict", **ACCEPTED)
async def predict(request: Request, body: PredictBody, context: Context) -> JobBody:
    """Let a run's best model answer."""
    job = check_prediction(
        context.runs,
        context.uploads,
        context.settings,
        run=body.run,
        text=body.input,
        upload=body.upload,
        options=body.options,
        seed=body.seed,
        checkpoint=body.checkpoint,
    )
    return accepted(context.jobs.submit("predict", f"{body.run} answers", job, request, upload=body.upload))
