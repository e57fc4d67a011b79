"""The responses of the API: JSON and GeoJSON, and errors as one sentence each."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dqam.errors import InputError
from dqam.explorer.geojson import SCHEMAS, InvalidGeojsonError
from dqam.explorer.schema import ErrorMessage

NO_SUCH_RELEASE: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorMessage, "description": "There is no release with this number."},
    422: {"model": ErrorMessage, "description": "A parameter is missing or out of range."},
}
LAYER_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorMessage, "description": "There is no such slice."},
    **NO_SUCH_RELEASE,
}
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {
        "model": ErrorMessage,
        "description": "A rectangle is invalid: upside down, outside the map, in an unknown CRS; or there is no such "
        "slice.",
    },
    **NO_SUCH_RELEASE,
}
TOO_LARGE: dict[int | str, dict[str, Any]] = {413: {"model": ErrorMessage, "description": "The body is too large."}}
GEOJSON_ERRORS: dict[int | str, dict[str, Any]] = {  # unlike the answers, these are plain JSON
    status: {
        "description": words,
        "content": {"application/json": {"schema": {"$ref": f"{SCHEMAS}{ErrorMessage.__name__}"}}},
    }
    for status, words in (
        (
            400,
            "The body is not JSON, is outside the map, has too many corners, or is in an unknown CRS; or there "
            "is no such slice.",
        ),
        (404, NO_SUCH_RELEASE[404]["description"]),
        (413, TOO_LARGE[413]["description"]),
        (422, "The body is not GeoJSON as described, or a parameter is out of range."),
    )
}

EDR_ERRORS: dict[int | str, dict[str, Any]] = {  # the standard demands 400 where the API of the explorer says 422
    "4XX": {
        "description": "400 if a parameter is unknown, missing, out of range, or names a place outside the map; 404 if "
        "there is no such collection.",
        "content": {"application/json": {"schema": {"$ref": f"{SCHEMAS}{ErrorMessage.__name__}"}}},
    }
}


class NoSuchReleaseError(InputError):
    """A request for a release that is not on this server."""


STATUSES = {NoSuchReleaseError: 404, InvalidGeojsonError: 422}


class Json(JSONResponse):
    """JSON in ASCII, with all digits of every number."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


class GeoJson(Json):
    """GeoJSON."""

    media_type = "application/geo+json"


def explain_errors(app: FastAPI) -> None:
    """Answer every error of a user with one sentence."""

    @app.exception_handler(InputError)
    async def explain_input_error(request: Request, error: InputError) -> Response:
        return Json({"error": str(error)}, STATUSES.get(type(error), 400))

    @app.exception_handler(HTTPException)
    async def explain_http_error(request: Request, error: HTTPException) -> Response:
        where = f"{request.url.path}; the API is described at /api."
        words = {
            400: 'The body is not valid JSON; send JSON such as {"rectangles": [[west, south, east, north]]}.',
            404: f"There is nothing at {where}",
            405: f"{request.method} cannot be used at {where}",
        }
        return Json({"error": words.get(error.status_code, error.detail)}, error.status_code, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def explain_validation_error(request: Request, error: RequestValidationError) -> Response:
        status = 400 if f"{request.url.path}/".startswith("/edr/") else 422
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "The body"
        return Json({"error": f"{where}: {first['msg']}; see /api for the parameters."}, status)
