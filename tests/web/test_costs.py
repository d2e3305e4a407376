"""Costs over the wire: the catalogue, numbers at sizes, and what may be derived."""

import base64
import hashlib
import re

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from porism.web.addresses import cost_address
from porism.web.catalogue import catalogue
from porism.web.context import ServerContext
from porism.web.scripts import joined


def test_numbers_are_exact_texts_that_say_how_they_are_known(client: TestClient) -> None:
    found = client.get("/api/cost/value?of=attention,taylor&at=B:1,T:3000000000,A:8,D:64").json()
    expected = 4 * 8 * 64 * 3 * 10**9 * (2 * 8 * 64 + 3 * 10**9)
    assert found["values"]["attention"]["flops"] == str(expected)
    assert found["known"]["attention"]["flops"] == {"label": "extrapolated", "why": "T confirmed to 138"}
    assert set(found["values"]) == {"attention", "taylor"}


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("of=nothing", 404, "of"),
        ("of=os:system", 404, "of"),
        ("of=taylor&at=T:0", 422, "at"),
        ("of=taylor&at=T:-1", 422, "at"),
        ("of=taylor&at=Q:5", 422, "at"),
        ("of=taylor&at=T:1e5", 422, "at"),
        ("of=taylor&at=T:" + "9" * 31, 422, "at"),
        ("of=taylor&at=T:٣", 422, "at"),
        ("of=,", 422, "of"),
        ("", 422, "of"),
    ],
)
def test_what_cannot_be_read_is_refused_by_field(client: TestClient, query: str, status: int, field: str) -> None:
    answer = client.get(f"/api/cost/value?{query}")
    assert (answer.status_code, answer.json()["field"]) == (status, field)


def test_the_catalogue_whole_and_in_part(client: TestClient) -> None:
    whole = client.get("/api/catalogue").json()
    assert [cost["target"] for cost in whole["layers"] + whole["recipes"]] == list(catalogue().costs)
    assert whole["allowed"] == ["torch.nn:LSTM"]
    part = client.get("/api/catalogue?of=language/elman,taylor").json()
    assert [cost["target"] for cost in part["costs"]] == ["language/elman", "taylor"]
    assert "layers" not in part


@pytest.mark.parametrize("address", ["/api/cost", "/api/cost/recount", "/api/measure"])
def test_a_module_that_was_not_allowed_is_never_imported(
    client: TestClient, context: ServerContext, address: str
) -> None:
    answer = client.post(address, json={"target": "os:system", "inputs": ["B T D"]})
    assert (answer.status_code, answer.json()["field"]) == (403, "target")
    assert answer.json()["hint"] == "Start the server with: porism serve --allow os:system"
    assert client.post(address, json={"target": "nothing"}).status_code == 404
    assert context.jobs.listed() == []


def test_an_address_keeps_what_can_be_read(client: TestClient) -> None:
    query = {"of": "taylor,nope,os:system,torch.nn:LSTM@T+B+D", "show": "sums", "over": "T", "at": "T:64,T:x,B:2"}
    found = cost_address(query, catalogue(), ["torch.nn:LSTM"])
    assert found.state == {
        "of": ["taylor", "torch.nn:LSTM@T+B+D"],
        "show": "flops",
        "over": "T",
        "at": {"T": "64", "B": "2"},
    }
    assert len(found.left_out) == 4
    assert "porism serve --allow os:system" in " ".join(found.left_out)
    page = client.get("/cost", params=query)
    assert page.status_code == 200
    assert "nope" in page.text


def test_markup_in_an_address_stays_text(client: TestClient) -> None:
    page = client.get("/cost", params={"of": "<script>alert(1)</script>", "show": '"><img src=x>'}).text
    assert "<script>alert" not in page
    assert "<img src=x>" not in page


def test_the_room_has_its_numbers_without_a_script(client: TestClient) -> None:
    page = client.get("/").text
    value = client.get("/api/cost/value?of=attention").json()["values"]["attention"]["flops"]
    assert f"{int(value):,}" in page


def test_the_saved_file_allows_one_script_by_its_checksum(client: TestClient) -> None:
    answer = client.get("/api/cost/file?of=taylor,attention&at=T:512")
    assert answer.headers["content-disposition"].startswith("attachment")
    page = answer.text
    script = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert script is not None
    assert style is not None
    assert policy is not None
    for text in (script[1], style[1]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"sha256-{digest}" in policy[1].replace("&#39;", "'").replace("&#43;", "+")
    assert not re.search(r"^(import|export)\b", script[1], re.MULTILINE)
    assert not re.search(r'(?:src|href)="/', page)
    assert "512" in page


def test_modules_are_joined_without_their_imports_and_comments() -> None:
    imports = 'import {\n  f,\n  G,\n} from "./x.js";\nimport { h } from "./y.js";\n'
    comment = "/** Of f:\n * all. */\n"
    modules = {
        "room.js": f'{imports}\nconst text = "import me // too";\n',
        "x.js": f'// x\nimport {{ h }} from "./y.js";\n{comment}export async function f() {{}}\nexport class G {{}}\n',
        "y.js": "export const h = 1; // one\n",
        "z.js": "export const z = 1;\n",
    }
    expected = 'const h = 1; // one\nasync function f() {}\nclass G {}\nconst text = "import me // too";\n'
    assert joined(modules, "room.js") == expected


@pytest.mark.parametrize(
    ("room", "most"), [("cost", 66), ("patterns", 41), ("models", 47), ("compare", 31), ("ledger", 29)]
)
def test_a_room_loads_one_script(client: TestClient, context: ServerContext, room: str, most: int) -> None:
    """Of so many kB at most: what a room does not use it does not load."""
    text = client.get(f"{context.static.base}/{room}.js").text
    assert len(text.encode()) < 1000 * most
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    page = client.get(f"/{room}").text
    assert re.findall(r'<script[^>]* src="([^"]*)"', page) == [f"{context.static.base}/{room}.js"]


def test_scripts_and_styles_may_be_kept_for_good(client: TestClient, context: ServerContext) -> None:
    base = context.static.base
    answer = client.get(f"{base}/formula.js")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" not in client.get("/static/old/formula.js").headers["cache-control"]


@pytest.mark.parametrize("name", ["..%2Fapp.py", "%2e%2e/app.py", "../app.py", "/etc/passwd", "formula.js%00", "%00"])
def test_no_other_file_is_served(client: TestClient, context: ServerContext, name: str) -> None:
    assert client.get(f"{context.static.base}/{name}").status_code == 404
