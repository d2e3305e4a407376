"""Costs: the catalogue, values at sizes, and derivation, recount and measurement as jobs."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from porism.web.addresses import MOST_DIGITS, cost_address, read_sizes, unknown_target
from porism.web.catalogue import KINDS
from porism.web.context import Context, ServerContext
from porism.web.jobs import LIMITS
from porism.web.refusals import Refusal
from porism.web.routes.job_answers import ACCEPTED, JobBody, accepted
from porism.web.saved_file import saved_file
from porism.web.values import value_at

router = APIRouter(prefix="/api")
Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Query(max_length=2000)]
Letter = Annotated[str, Field(pattern=r"^[A-Z]$")]
Size = Annotated[int, Field(ge=1, lt=10**MOST_DIGITS)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class DeriveBody(Body):
    """What to derive. inputs: the sizes of each input, "B T D". with: numbers that a factory is called with."""

    target: Name
    inputs: list[Annotated[str, Field(max_length=200)]] = Field(default=[], max_length=8)
    arguments: Annotated[str, Field(max_length=200)] = Field(default="", alias="with")
    multiples: dict[Letter, Annotated[int, Field(ge=1, le=4096)]] = {}


class SizesBody(Body):
    """What to count or to measure, and where."""

    target: Name
    inputs: list[Annotated[str, Field(max_length=200)]] = Field(default=[], max_length=8)
    arguments: Annotated[str, Field(max_length=200)] = Field(default="", alias="with")
    multiples: dict[Letter, Annotated[int, Field(ge=1, le=4096)]] = {}
    at: dict[Letter, Size] = {}


class MeasureBody(SizesBody):
    """What to time, and where. calibrate: measure what the device can do first, which a prediction is made from."""

    device: Literal["auto", "cpu", "cuda"] = "cpu"
    calibrate: bool = False


@router.get("/catalogue")
def read_catalogue(context: Context, of: Text = "") -> dict[str, Any]:
    """The formulas of all layers and recipes; with `of`, of these only."""
    catalogue = context.catalogue
    found: dict[str, Any] = {
        "letters": catalogue.letters,
        "kinds": KINDS,
        "allowed": list(context.settings.allowed),
        "limits": LIMITS,
    }
    if of:
        names = [name.strip() for name in of.split(",") if name.strip()]
        return found | {"costs": [_known(name, context) for name in names]}
    return found | {"layers": catalogue.layers, "recipes": catalogue.recipes}


@router.get("/cost/value")
async def read_value(context: Context, of: Text, at: Text = "") -> dict[str, Any]:
    """Numbers at sizes, as text, and how each is known."""
    # In the event loop: a fraction of a millisecond, less than a thread would take to begin.
    problems: list[str] = []
    sizes = read_sizes(at, problems, context.catalogue)
    if problems:
        raise Refusal(422, "sizes", problems[0], "Write for instance B:1,T:4096.", field="at")
    costs = [_known(name.strip(), context) for name in of.split(",") if name.strip()]
    if not costs:
        raise Refusal(422, "target", "of names no layer and no recipe.", "Write for instance of=taylor.", field="of")
    found = {cost["target"]: {kind: value_at(cost, kind, sizes) for kind in KINDS} for cost in costs}
    return {
        "values": {name: {kind: value.digits for kind, value in kinds.items()} for name, kinds in found.items()},
        "known": {
            name: {kind: {"label": value.label, "why": value.why} for kind, value in kinds.items()}
            for name, kinds in found.items()
        },
    }


@router.get("/cost/file", response_class=Response, responses={200: {"content": {"text/html": {}}}})
def read_file(context: Context, of: Text = "", show: Text = "", over: Text = "", at: Text = "") -> Response:
    """The cost room at an address as one HTML file that needs no server."""
    given = {name: text for name, text in (("of", of), ("show", show), ("over", over), ("at", at)) if text}
    address = cost_address(given, context.catalogue, ())
    page = saved_file(address, context.catalogue, context.static)
    headers = {"Content-Disposition": 'attachment; filename="porism-cost.html"'}
    return Response(page, media_type="text/html", headers=headers)


@router.post("/cost", **ACCEPTED)
async def derive(request: Request, body: DeriveBody, context: Context) -> JobBody:
    """Derive the formulas of a module, or of a layer or recipe anew."""
    check_target(body.target, context)
    return accepted(context.jobs.submit("derive", f"cost of {body.target}", body.model_dump(), request))


@router.post("/cost/recount", **ACCEPTED)
async def recount(request: Request, body: SizesBody, context: Context) -> JobBody:
    """Count at sizes: nothing is extrapolated."""
    check_target(body.target, context)
    return accepted(context.jobs.submit("recount", f"count of {body.target}", body.model_dump(), request))


@router.post("/measure", **ACCEPTED)
async def measure(request: Request, body: MeasureBody, context: Context) -> JobBody:
    """The time of a pass forward and backward at sizes: measured here, and predicted where the device is calibrated."""
    check_target(body.target, context)
    kind = "calibrate" if body.calibrate else "measure"
    return accepted(context.jobs.submit(kind, f"time of {body.target}", body.model_dump(), request))


def check_target(name: str, context: ServerContext) -> None:
    """Refuse what is neither in the catalogue nor allowed: nothing else is ever imported."""
    if name in context.catalogue.costs or name in context.settings.allowed:
        return
    message = unknown_target(name, context.catalogue)
    if ":" in name:
        raise Refusal(403, "not_allowed", f"{name} may not be imported.", message.partition(". ")[2], field="target")
    raise Refusal(404, "no_target", message, field="target")


def _known(name: str, context: ServerContext) -> dict[str, Any]:
    if name not in context.catalogue.costs:
        raise Refusal(404, "no_target", unknown_target(name, context.catalogue), field="of")
    return context.catalogue.costs[name]
