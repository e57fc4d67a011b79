"""A web page to view and query releases, and the JSON API behind it. It only knows releases."""

from dqam.explorer.app import make_app
from dqam.explorer.server import serve

__all__ = ["make_app", "serve"]
