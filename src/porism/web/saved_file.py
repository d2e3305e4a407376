"""The cost room as one HTML file that works from disk without a server or a network.

Modules do not load from file://, so the scripts are joined into one, and the page's policy allows exactly that one by
its checksum.
"""

import base64
import hashlib
from dataclasses import dataclass

from porism.web.addresses import Address
from porism.web.catalogue import Catalogue
from porism.web.rendering import render
from porism.web.rooms import CostRoom
from porism.web.scripts import joined
from porism.web.static_files import SHARED_STYLE, StaticFiles

ROOM = "cost.js"
STYLES = (SHARED_STYLE, "page.css")


@dataclass(frozen=True)
class SavedPage:
    """What the template puts into the page in place of links to files."""

    script: str
    styles: str

    @property
    def policy(self) -> str:
        return (
            f"default-src 'none'; script-src '{_digest(self.script)}'; style-src '{_digest(self.styles)}'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        )


def saved_file(address: Address, catalogue: Catalogue, static: StaticFiles) -> bytes:
    """The page at an address of the cost room, with a line for each part of it that cannot be read."""
    contents = {name: data.decode() for name, data in static.contents.items()}
    page = SavedPage(
        script=_inside("script", joined(contents, ROOM)),
        styles=_inside("style", "\n".join(contents[name] for name in STYLES)),
    )
    room = CostRoom(address.state, address.left_out, catalogue, ())
    return render("cost.html", room.context(static.base) | {"saved": page}).encode()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _inside(element: str, text: str) -> str:
    """A text that may stand in an element: nothing in it ends the element."""
    if f"</{element}" in text.lower():
        raise ValueError(f"a {element} of the page holds its own end")
    return text
