"""ETags: a page or a JSON that a browser has already is not sent again."""

import hashlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TAGGED = ("application/json", "text/html")


class ETags:
    """Tags whole answers to GET with a checksum, and answers 304 where the browser holds that one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        start: Message | None = None
        body = bytearray()

        async def tagging(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "").partition(";")[0]
                if message["status"] == 200 and kind in TAGGED:
                    start = message
                    return
            if start is None:
                await send(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            await _send_tagged(scope, start, bytes(body), send)

        await self.app(scope, receive, tagging)


async def _send_tagged(scope: Scope, start: Message, body: bytes, send: Send) -> None:
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:24]}"'
    headers = MutableHeaders(scope=start)
    headers["ETag"] = tag
    known = [one.strip() for one in Headers(scope=scope).get("if-none-match", "").split(",")]
    if tag in known:
        start["status"] = 304
        del headers["content-length"]
        body = b""
    await send(start)
    await send({"type": "http.response.body", "body": body})
