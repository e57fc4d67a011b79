"""A web page to view and query releases, and the JSON API behind it. It has access to releases only."""

from dqam.explorer.app import make_app
from dqam.explorer.server import serve

__all__ = ["make_app", "serve"]
