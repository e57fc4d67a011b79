"""A page to look at releases and ask them, and the JSON API below it. It knows releases and nothing else."""

from dqam.explorer.app import make_app
from dqam.explorer.server import serve

__all__ = ["make_app", "serve"]
