"""Who may ask, and what a browser may do with the answer.

- `Host` must name this machine: a foreign page whose name is made to lead here (DNS rebinding) is refused.
- POST and DELETE come from this page or from no page at all, and bring a media type that no foreign form can send.
- Bound to more than this machine, or with --token, every request needs the token, once in the link, then as a cookie.
- Every answer forbids the browser all but this server's own scripts, styles and addresses.
"""

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from anyio import BrokenResourceError
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from porism.web.refusals import Refusal
from porism.web.rendering import render
from porism.web.settings import LOOPBACK, ServerSettings
from porism.web.uploads import MEDIA_TYPES

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"
"""For a report, which may come from somebody else: it is shown, and can do nothing."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
LARGEST_JSON = 1_000_000
"""Bytes of a request's JSON."""
UPLOADS = "/api/uploads"


class Safety:
    """The outermost layer of the app: refuses what must not come in, and puts the headers on all that goes out."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app, self.settings = app, settings
        self.cookie = f"porism_{settings.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        started, headers = False, Headers(scope=scope)

        async def protected(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                answered = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    answered.setdefault(name, value)
            await send(message)

        try:
            answer = self._check(scope, headers)
            if answer is None:
                await self.app(scope, await _bounded(scope, receive), protected)
                return
        except Refusal as refusal:
            answer = refused_page(refusal) if _shows_pages(scope, headers) else refusal.response()
        except Exception as error:
            if started and reader_has_left(error):
                return
            if not started:
                message = f"the server failed: {type(error).__name__}. See where it was started."
                await Refusal(500, "internal", message).response()(scope, receive, protected)
            raise
        await answer(scope, receive, protected)

    def _check(self, scope: Scope, headers: Headers) -> Response | None:
        """An answer for a request that goes no further: a refusal, or a redirect that sets the cookie."""
        self._check_host(headers)
        if (answer := self._check_token(scope, headers)) is not None:
            return answer
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            _check_origin(scope, headers)
        if scope["method"] == "POST":
            _check_media_type(scope["path"], headers)
        return None

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise Refusal(400, "host", "a request has one Host header.")
        # Where others may connect the token keeps a rebound name out: its page has no cookie of ours.
        if self.settings.is_local and host_name(hosts[0]) not in LOOPBACK:
            raise Refusal(400, "host", "this server answers to 127.0.0.1 and localhost only.", "Open it by that name.")

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        expected = self.settings.token
        if expected is None or self._brings(headers, expected):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in query if name == "token"), "")
        if scope["method"] != "GET" or not hmac.compare_digest(given.encode(), expected.encode()):
            raise Refusal(401, "token", "this server needs a token.", "Open the link that porism serve printed.")
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # No address of another server can come of it: the path is made relative to this one.
        path = "/" + scope["path"].lstrip("/\\")
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(self.cookie, expected, httponly=True, samesite="strict")
        return answer

    def _brings(self, headers: Headers, expected: str) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        given = cookies[self.cookie].value if self.cookie in cookies else ""
        return hmac.compare_digest(given.encode(), expected.encode())


def refused_page(refusal: Refusal) -> HTMLResponse:
    """A refusal for somebody in front of a browser. It loads no style sheet, which would be refused as well."""
    text = refusal.body.message
    values = {"message": text[:1].upper() + text[1:], "hint": refusal.body.hint}
    return HTMLResponse(render("refused.html", values), refusal.status, {"Vary": "Accept"})


def _shows_pages(scope: Scope, headers: Headers) -> bool:
    """Whether a browser asks for an address that was opened in it. Scripts take whatever comes, or JSON."""
    return scope["method"] in ("GET", "HEAD") and "text/html" in headers.get("accept", "").lower()


def reader_has_left(error: BaseException) -> bool:
    """Whether an answer ended only because nobody reads it any more: fastapi's event stream may fail then."""
    if isinstance(error, BaseExceptionGroup):
        return all(reader_has_left(one) for one in error.exceptions)
    return isinstance(error, BrokenResourceError)


def host_name(host: str) -> str:
    """The name of a Host header, without its port.

    >>> host_name("localhost:8765"), host_name("[::1]:8765"), host_name("evil.example")
    ('localhost', '::1', 'evil.example')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _check_origin(scope: Scope, headers: Headers) -> None:
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    ours = f"{scope['scheme']}://{headers['host']}"
    if (site is not None and site != "same-origin") or (origin is not None and origin != ours):
        raise Refusal(403, "origin", "this request comes from another page.", "Use the page that porism serve shows.")


def _check_media_type(path: str, headers: Headers) -> None:
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    expected = tuple(MEDIA_TYPES) if path == UPLOADS else ("application/json",)
    if given not in expected:
        raise Refusal(
            415, "media_type", f"a body of {given or 'no media type'} is not read here.", f"Send {', '.join(expected)}."
        )


async def _bounded(scope: Scope, receive: Receive) -> Receive:
    """The body of a request that is JSON, refused once it is longer than that may be. Uploads count their own."""
    if scope["method"] != "POST" or scope["path"] == UPLOADS:
        return receive
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_JSON:
            raise Refusal(413, "too_large", f"a request has at most {LARGEST_JSON:,} bytes.")
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    return again
