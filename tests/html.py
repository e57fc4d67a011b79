"""Read HTML as a browser does: its tags, its text and its tables."""

from __future__ import annotations

import base64
import io
from html.parser import HTMLParser
from typing import Any

import matplotlib.image
import numpy as np

VOID = {"meta", "img", "br", "rect"}
LOADING = {"script", "link", "iframe", "object", "embed", "form", "base"}


class Page(HTMLParser):
    """A page whose tags are all closed.

    tags    (name, attributes) of each
    text    what can be read, without titles and with single spaces
    tables  rows of text, the heading among them
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = self.title = ""
        self.tables: list[list[list[str]]] = []
        self.feed(html)
        self.close()
        assert not self.open
        self.text = _tidy(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.tables[-1][-1][-1] = _tidy(self.tables[-1][-1][-1])

    def handle_data(self, data: str) -> None:
        if "title" in self.open:
            self.title += data
        elif "style" not in self.open:
            self.text += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data + " "

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]

    @property
    def links(self) -> list[str]:
        return [attributes["href"] for attributes in self.all("a")]

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        """The attributes of all tags of a name that have these attributes; `class_` is their class."""
        names = {name.rstrip("_"): value for name, value in wanted.items()}
        return [found for name, found in self.tags if name == tag and names.items() <= found.items()]

    def table(self, first: str) -> list[list[str]]:
        """The rows of the table whose heading begins so, without the heading."""
        return self.whole_table(first)[1:]

    def whole_table(self, first: str) -> list[list[str]]:
        """The same with the heading."""
        (found,) = (table for table in self.tables if table[0][0].startswith(first))
        return found

    def picture(self) -> np.ndarray[Any, Any]:
        """The colours of the only picture."""
        (source,) = (image["src"] for image in self.all("img"))
        kind, _, data = source.partition(",")
        assert kind == "data:image/png;base64"
        return matplotlib.image.imread(io.BytesIO(base64.b64decode(data)))

    def assert_loads_nothing(self) -> None:
        """Assert that the page has no script and that all it shows is inside."""
        assert not {name for name, _ in self.tags} & LOADING
        assert len(self.ids) == len(set(self.ids))
        for _, attributes in self.tags:
            assert not any(name.startswith("on") for name in attributes)
            assert attributes.get("src", "data:image/").startswith("data:image/")
            assert "srcset" not in attributes
        assert all(link[1:] in self.ids for link in self.links if link.startswith("#"))


def _tidy(text: str) -> str:
    return " ".join(text.split())
