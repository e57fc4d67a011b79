"""What a notebook shows of a release."""

import importlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from dqam import explorer
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.release.notebook import Explorer
from dqam.release.picture import draw_picture
from dqam.release.release import Release
from tests.release.cases import as_if_private, seeded, sliced

VOID = {"img", "br"}


class Balanced(HTMLParser):
    """Fails if tags are not closed in order; collects tags and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def titled(release: Release, title: str) -> Release:
    return replace(release, provenance=replace(release.provenance, title=title))


def shown(release: Release) -> Balanced:
    return Balanced(release._repr_html_())


def test_it_says_what_one_must_know() -> None:
    release = as_if_private(seeded())
    page = shown(release)
    assert release.provenance.promise in page.words
    assert "Protected: one trip." in page.words
    trips = release.trips
    assert f"{trips.value:,.0f} trips ({trips.low:,.0f} to {trips.high:,.0f}, 90 % interval)" in page.words
    assert release.provenance.id in page.words
    (image,) = [attributes for tag, attributes in page.tags if tag == "img"]
    assert image["src"] == draw_picture(release).source
    assert "slice" not in page.words
    assert "Flows" not in page.words


def test_the_lines_of_code_run() -> None:
    for release in (seeded(), sliced(), seeded(grid=Grid((-30.06, 44.96, -29.94, 45.04), 1, 7))):
        code = re.search(r"<pre[^>]*>(.*?)</pre>", release._repr_html_(), re.DOTALL)
        assert code
        lines = code[1].splitlines()
        assert len(lines) == 3
        for line in lines:
            if "plot" not in line:
                eval(line, {"release": release, "zones": [release.grid.bounds]})
        answer = eval(lines[0], {"release": release})
        assert not answer.cut
        assert 0 < answer.value <= release.trips.value


def test_slices_and_flows_are_named() -> None:
    release = as_if_private(sliced())
    page = shown(release)
    assert "24 slices by hour: 00, 01, 02, 03, 04, 05, …, 23." in page.words
    assert "release.profile((" in page.words
    some = shown(release.select(["07", "08"]))
    assert "in the selected slices" in some.words
    assert "2 slices by hour: 07, 08." in some.words
    assert "1 slice by hour: 07." in shown(release.select("07")).words
    assert "release.flow(origin, destination)" not in page.words


def test_warnings_are_shown() -> None:
    assert "NOT PRIVATE" in shown(seeded()).words
    assert "this mechanism gives no intervals" in shown(seeded(mechanism="laplace")).words
    few = seeded(mechanism="uniform")
    assert few.note in shown(few).words


def test_it_loads_nothing_and_runs_nothing() -> None:
    page = shown(sliced())
    assert {tag for tag, _ in page.tags} <= {"div", "p", "span", "strong", "code", "pre", "img"}
    for _, attributes in page.tags:
        assert set(attributes) <= {"style", "alt", "width", "height", "src"}
        assert (attributes.get("src") or "data:image/png;").startswith("data:image/png;")
        assert "url(" not in (attributes.get("style") or "")


def test_no_colour_of_its_own_for_text_or_background() -> None:
    """It takes those of the notebook, which may be light or dark."""
    styles = [attributes.get("style") or "" for _, attributes in shown(sliced()).tags]
    assert {value for style in styles for value in re.findall(r"(?<![-\w])color: ([^;]+)", style)} == {"inherit"}
    for style in styles:
        for value in re.findall(r"background: ([^;]+)", style):
            assert value.startswith(("rgba(128", "linear-gradient", "#0b1320"))


def test_words_of_the_publisher_are_escaped() -> None:
    odd = "<script>alert(1)</script> \"'& \ud800"
    page = shown(titled(seeded(), odd))
    assert "script" not in {tag for tag, _ in page.tags}
    assert "<script>alert(1)</script> \"'& ?" in page.words
    titled(seeded(), odd)._repr_html_().encode()


def test_a_narrow_map_has_a_narrow_picture() -> None:
    page = shown(seeded(grid=Grid((-30.001, 44.96, -29.999, 45.04), 64, 2)))
    (image,) = [attributes for tag, attributes in page.tags if tag == "img"]
    assert int(str(image["width"])) < int(str(image["height"])) == 300


def test_the_explorer_is_in_a_frame_without_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    page = '<p title="a">1 < 2 &amp; 3</p>'
    monkeypatch.setattr(importlib.import_module("dqam.explorer"), "make_page", lambda release: page, raising=False)
    frame = seeded().explore(height=500)
    ((tag, attributes),) = Balanced(frame._repr_html_()).tags
    assert (tag, attributes["srcdoc"]) == ("iframe", page)
    assert attributes["sandbox"] == "allow-scripts allow-downloads"
    assert "height: 500px" in str(attributes["style"])
    assert repr(frame) == "<Explorer: 30 characters of HTML, to be shown in a notebook>"


def test_without_the_page_an_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dqam.release.notebook.import_module", lambda name: SimpleNamespace())
    with pytest.raises(InputError, match="dqam serve"):
        seeded().explore()


@pytest.mark.skipif(
    not hasattr(explorer, "make_page"), reason="the page in one file (dqam.explorer.make_page) is not in this version"
)
def test_the_explorer_carries_the_release() -> None:
    frame = as_if_private(seeded()).explore()
    assert isinstance(frame, Explorer)
    assert "A city" in frame._repr_html_()
