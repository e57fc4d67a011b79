"""The page in one file: made of the files of the served page, with nothing to load and no other scripts."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from dqam.explorer import standalone
from dqam.explorer.standalone import bundle, make_page, write_page
from dqam.release.release import Release


def digests(texts: list[str]) -> list[str]:
    return [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts]


def test_only_what_is_in_the_page_may_run(first: Release) -> None:
    page = make_page(first)
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    scripts = re.findall(r'<script(?: type="module")?>(.*?)</script>', page, re.DOTALL)
    assert allowed["script-src"].split() == digests(scripts)
    assert allowed["style-src"].split() == digests(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    assert len(scripts) == len(re.findall(r"<script", page)) - 1  # the other one holds the numbers
    assert allowed["default-src"] == "'none'"
    assert "unsafe" not in policy
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_nothing_is_loaded(first: Release) -> None:
    page = make_page(first)
    inside = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    links = re.findall(r'(?:src|href)="([^"]*)"', inside)
    assert all(link.startswith(("data:", "#")) or link == "api" for link in links)
    assert not re.findall(r"url\((?!data:|#)", "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL)))
    assert "sourceMappingURL" not in page


def test_every_module_is_in_the_page_once_after_those_that_it_imports() -> None:
    made = bundle("explorer.js")
    files = {path.name for path in Path(standalone.__file__).parent.joinpath("static").glob("**/*.js")}
    places = [Path(name).name for name in re.findall(r'^modules\["([^"]+)"\] = ', made, re.MULTILINE)]
    assert set(places) == files - {"api.js", "leaflet.js"}
    assert len(places) == len(set(places))
    for own, other in re.findall(r'^modules\["([^"]+)"\] = |= modules\["([^"]+)"\];$', made, re.MULTILINE):
        if own:
            current = Path(own).name
        else:
            assert places.index(Path(other).name) < places.index(current)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('import thing from "./other.js";\n', "cannot be put into the page"),
        ('const other = await import("./other.js");\n', "cannot be put into the page"),
        ("export default 1;\n", "cannot be put into the page"),
        ('const ending = "</script>";\n', "would end the script"),
        ('import { a } from "./one.js";\n', "in a circle"),
    ],
)
def test_a_module_that_could_not_work_in_the_page_is_an_error(
    monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setattr(standalone, "_text", lambda name: text)
    with pytest.raises(ValueError, match=problem):
        bundle("one.js")


def test_imports_and_exports_become_values_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "one.js": 'import { a, b as c } from "./folder/two.js";\nexport const d = a + c;\n',
        "folder/two.js": 'import { three } from "../three.js";\nexport function a() {}\nexport class b {}\n',
        "three.js": "export async function three() {}\n",
    }
    monkeypatch.setattr(standalone, "_text", files.__getitem__)
    made = bundle("one.js")
    assert 'const { a, b: c } = modules["folder/two.js"];' in made
    assert 'const { three } = modules["three.js"];' in made
    assert "return { a, b };" in made
    assert "export" not in made


def test_words_of_a_release_cannot_end_its_data(first: Release) -> None:
    page = make_page(first, "</script><script>odd()</script>")
    assert "<script>odd()" not in page
    (told,) = re.findall(r'<script type="application/json" id="carried">(.*?)</script>', page)
    assert json.loads(told)[0]["info"]["name"] == "</script><script>odd()</script>"


def test_a_page_is_written_whole(tmp_path: Path, first: Release) -> None:
    write_page(first, tmp_path / "map.html")
    assert (tmp_path / "map.html").read_text(encoding="utf-8") == make_page(first, "map")
    assert [path.name for path in tmp_path.iterdir()] == ["map.html"]
