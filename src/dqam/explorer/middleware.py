"""Middleware of the explorer: a limit on the size of a request, and response headers that keep browsers strict."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dqam.errors import InputError

MOST_BYTES = 1 << 20  # of a body
MOST_GEOJSON_BYTES = 8 << 20  # of a body of GeoJSON
GEOJSON_PATHS = ("/areas", "/lines", "/profile", "/flow", "/flows", "/flows/largest")
PUBLIC = ("/api/", "/edr", "/openapi.json")  # what other sites may read


def check_tiles(tiles: str) -> str:
    """The URL template of map tiles, or an `InputError`."""
    place = urlsplit(tiles)
    if (
        place.scheme not in ("http", "https")
        or not place.hostname
        or not all(part in tiles for part in ("{z}", "{x}", "{y}"))
        or any(sign in place.netloc for sign in "; ,'\"@")
    ):
        raise InputError(
            f"tiles must be a URL with {{z}}, {{x}} and {{y}}, such as "
            f"'https://tile.openstreetmap.org/{{z}}/{{x}}/{{y}}.png'; got {tiles!r}."
        )
    return tiles


def security_headers(tiles: str | None) -> dict[str, str]:
    """Headers that allow nothing from elsewhere except tiles, nothing inline, no frames, and no stale copies."""
    images = "'self'"
    if tiles is not None:
        place = urlsplit(tiles)
        images += f" data: {place.scheme}://{place.netloc.replace('{s}', '*')}"
    policy = (
        f"default-src 'self'; img-src {images}; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin" if tiles is None else "strict-origin-when-cross-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }


class SecurityHeadersMiddleware:
    """Adds the security headers to every response, and lets other sites read what the API answers to GET."""

    def __init__(self, app: ASGIApp, tiles: str | None = None) -> None:
        self.app = app
        self.headers = security_headers(tiles)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        public = scope["method"] in ("GET", "HEAD") and scope["path"].startswith(PUBLIC)

        async def send_strict(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                if public:
                    headers["Access-Control-Allow-Origin"] = "*"
            await send(message)

        await self.app(scope, receive, send_strict)


class BodyLimitMiddleware:
    """Refuses a body that is too large, as soon as that is known and however much of it is still to come."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced, received = Headers(scope=scope).get("content-length", "0"), 0
        most = MOST_GEOJSON_BYTES if scope["path"].endswith(GEOJSON_PATHS) else MOST_BYTES

        async def receive_limited() -> Message:
            nonlocal received
            if announced.isdecimal() and int(announced[:20]) > most:
                raise _too_large(most)
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise _too_large(most)
            return message

        await self.app(scope, receive_limited, send)


def _too_large(most: int) -> HTTPException:
    detail = f"The body is larger than {most:,} bytes; send fewer areas or lines at a time."
    return HTTPException(413, detail, headers={"Connection": "close"})
