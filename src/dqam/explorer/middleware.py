"""What every request and every response goes through: a limit to the body, and headers that keep browsers strict."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dqam.errors import InputError

MOST_BYTES = 1 << 20  # of a body


def check_tiles(tiles: str) -> str:
    """The address of map tiles, or an `InputError`."""
    place = urlsplit(tiles)
    if (
        place.scheme not in ("http", "https")
        or not place.hostname
        or not all(part in tiles for part in ("{z}", "{x}", "{y}"))
        or any(sign in place.netloc for sign in "; ,'\"@")
    ):
        raise InputError(
            f"Tiles have an address with {{z}}, {{x}} and {{y}}, such as "
            f"'https://tile.openstreetmap.org/{{z}}/{{x}}/{{y}}.png'; got {tiles!r}."
        )
    return tiles


def headers(tiles: str | None) -> dict[str, str]:
    """Security headers: nothing from elsewhere but tiles, nothing inline, in nobody's frame."""
    pictures = "'self'"
    if tiles is not None:
        place = urlsplit(tiles)
        pictures += f" data: {place.scheme}://{place.netloc.replace('{s}', '*')}"
    policy = (
        f"default-src 'self'; img-src {pictures}; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin" if tiles is None else "strict-origin-when-cross-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
    }


class Guard:
    """An ASGI app behind the limit and the headers."""

    def __init__(self, app: ASGIApp, tiles: str | None = None) -> None:
        self.app = app
        self.headers = headers(tiles)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        public = scope["method"] in ("GET", "HEAD") and scope["path"].startswith(("/api/", "/openapi.json"))

        async def strict(message: Message) -> None:
            if message["type"] == "http.response.start":
                made = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    made[name] = value
                if public:
                    made["Access-Control-Allow-Origin"] = "*"
            await send(message)

        if scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, strict)
            return
        body = await _body(scope, receive)
        if body is None:
            await _too_large(strict)
            return
        await self.app(scope, _again(body, receive), strict)


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """The body of a request; None as soon as it is too large, however much of it is still to come."""
    announced = Headers(scope=scope).get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > MOST_BYTES:
        return None
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Receive a body that was received already, and then what comes after it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


async def _too_large(send: Send) -> None:
    content = json.dumps(
        {"error": f"The body is larger than {MOST_BYTES:,} bytes; ask for fewer rectangles at a time."}
    ).encode()
    made = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": made})
    await send({"type": "http.response.body", "body": content})
