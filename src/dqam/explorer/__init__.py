"""A web page to view and query releases, served with a JSON API or written to one file. It has access to releases only.

The page in a file needs no web framework, so each function is imported when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dqam.explorer.app import make_app
    from dqam.explorer.server import serve
    from dqam.explorer.standalone import make_page, write_page

__all__ = ["make_app", "make_page", "serve", "write_page"]


def __getattr__(name: str) -> object:
    """Import a function when it is first used."""
    if name == "make_app":
        from dqam.explorer.app import make_app

        return make_app
    if name == "serve":
        from dqam.explorer.server import serve

        return serve
    if name in ("make_page", "write_page"):
        from dqam.explorer import standalone

        return standalone.make_page if name == "make_page" else standalone.write_page
    raise AttributeError(f"module 'dqam.explorer' has no attribute {name!r}")
