"""A web page to view and query releases, served with a JSON API or written to one file. It has access to releases only.

The page in a file needs no web framework, so each function is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dqam.explorer.app import make_app
    from dqam.explorer.server import serve
    from dqam.explorer.standalone import make_page, write_page

__all__ = ["make_app", "make_page", "serve", "write_page"]
_HOMES = {"make_app": "app", "make_page": "standalone", "serve": "server", "write_page": "standalone"}


def __getattr__(name: str) -> object:
    """Import a function when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dqam.explorer' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"dqam.explorer.{_HOMES[name]}"), name)
    return value
