"""Scripts and style sheets, under an address that changes with their content and may so be kept for good."""

import hashlib
import mimetypes
from functools import cached_property
from importlib.resources import files

from porism.web.scripts import bare, joined

SHARED_STYLE = "look.css"
"""The part of the style sheet that reports and the page share; it lies with the reports."""
PAGES = ("cost", "patterns", "models", "compare", "ledger", "missing")
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class StaticFiles:
    """The files that a page loads, by name. Only what is listed here is ever read."""

    @cached_property
    def contents(self) -> dict[str, bytes]:
        found = {}
        folder = files("porism.web").joinpath("static")
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_file() and not entry.name.startswith("."):
                found[entry.name] = entry.read_bytes()
        shared = files("porism.report").joinpath("templates", SHARED_STYLE)
        if shared.is_file():
            found[SHARED_STYLE] = shared.read_bytes()
        return dict(sorted(found.items()))

    @cached_property
    def base(self) -> str:
        """Where they are: /static/HASH."""
        content = b"".join(f"{name} {len(data)}\n".encode() + data for name, data in self.contents.items())
        return f"/static/{hashlib.sha256(content).hexdigest()[:16]}"

    @cached_property
    def served(self) -> dict[str, bytes]:
        """What is sent under each name: of a page's script all that it imports too, so that a page loads one file."""
        scripts = {name: data.decode() for name, data in self.contents.items() if name.endswith(".js")}
        pages = {f"{page}.js" for page in PAGES} & scripts.keys()
        sheets = {name: bare(data.decode()).encode() for name, data in self.contents.items() if name.endswith(".css")}
        return self.contents | sheets | {name: joined(scripts, name).encode() for name in pages}

    def media_type(self, name: str) -> str:
        suffix = name[name.rfind(".") :]
        return MEDIA_TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
