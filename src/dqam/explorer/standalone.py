"""The explorer as one HTML file that opens from disk: it contains the numbers of a release and computes the answers.

It is made of the files that the server sends. Scripts and styles become part of the page and are allowed by their
hashes; the modules become one, each in a function of its own. The page may load nothing, and can send nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from dqam.explorer.packing import pack
from dqam.release.release import Release
from dqam.runtime.files import replacing

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function\*? |const |class )(\w+)", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*|\bimport\(.*|\bimport\.meta.*", re.MULTILINE)
LINKED = {  # what the page links to, as it is written there
    "leaflet": '  <script src="static/leaflet/leaflet.js" defer></script>\n',
    "explorer": '  <script src="static/explorer.js" type="module"></script>\n',
    "leaflet.css": '  <link rel="stylesheet" href="static/leaflet/leaflet.css">\n',
    "explorer.css": '  <link rel="stylesheet" href="static/explorer.css">\n',
}
ICON = "static/icon.svg"


def make_page(release: Release, name: str = "release") -> str:
    """The page of a release, as text to write to a file. `name` is what it calls the release, such as its file."""
    return _filled(_data([pack(release, name)]))


def write_page(release: Release, path: str | os.PathLike[str], name: str | None = None) -> None:
    """Write the page of a release; the file appears whole or not at all."""
    page = make_page(release, Path(path).stem if name is None else name)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _data(packed: list[dict[str, Any]]) -> str:
    """JSON that can be in a script element."""
    text = json.dumps(packed, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _filled(data: str) -> str:
    before, after = _frame()
    return f'{before}<script type="application/json" id="carried">{data}</script>\n{after}'


@cache
def _frame() -> tuple[str, str]:
    """The page before and after its data."""
    page = _text("index.html")
    leaflet = _text("leaflet/leaflet.js").replace("//# sourceMappingURL=leaflet.js.map", "")
    leaflet_css = re.sub(r"url\(images/[^)]*\)", "none", _text("leaflet/leaflet.css"))  # of controls that are not used
    scripts = {"leaflet": leaflet, "explorer": bundle("explorer.js")}
    styles = {"leaflet.css": leaflet_css, "explorer.css": _text("explorer.css")}
    policy = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    charset = '<meta charset="utf-8">\n'
    page = _replaced(page, charset, f'{charset}  <meta http-equiv="Content-Security-Policy" content="{policy}">\n')
    for name, text in styles.items():
        page = _replaced(page, LINKED[name], f"  <style>{text}</style>\n")
    for name in scripts:
        page = _replaced(page, LINKED[name], "")
    icon = base64.b64encode(_text("icon.svg").encode()).decode()
    page = page.replace(ICON, f"data:image/svg+xml;base64,{icon}")
    before, ending, after = page.rpartition("</body>")
    last = f'<script>{scripts["leaflet"]}</script>\n<script type="module">{scripts["explorer"]}</script>\n'
    return before, f"{last}{ending}{after}"


def bundle(name: str) -> str:
    """A module and all that it imports as one module. Each becomes a function, which returns what it exports.

    Only imports and exports of names, on lines of their own, are understood; anything else is an error.
    """
    made: dict[str, str] = {}
    _add(name, made)
    return "const modules = {};\n" + "".join(made.values())


def _add(name: str, made: dict[str, str], waiting: tuple[str, ...] = ()) -> None:
    """Add a module after those that it imports."""
    if name in made:
        return
    if name in waiting:
        raise ValueError(f"{' -> '.join((*waiting, name))}: modules import each other in a circle.")
    text = _text(name)
    for _, other in IMPORT.findall(text):
        _add(_place_of(other, name), made, (*waiting, name))

    def taken(found: re.Match[str]) -> str:
        names = found[1].replace(" as ", ": ").strip()
        return f"const {{ {names} }} = modules[{json.dumps(_place_of(found[2], name))}];\n"

    exported = [found[2] for found in EXPORT.finditer(text)]
    body = EXPORT.sub(r"\1\2", IMPORT.sub(taken, text))
    if odd := OTHER.search(body):
        raise ValueError(f"{name}: {odd[0][:60]!r} cannot be put into the page.")
    if "</script" in body or "<!--" in body:
        raise ValueError(f"{name} would end the script of the page.")
    made[name] = f"modules[{json.dumps(name)}] = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();\n"


def _place_of(imported: str, by: str) -> str:
    """The path of an imported module, from that of the module that imports it."""
    return os.path.normpath(f"{os.path.dirname(by)}/{imported}".lstrip("/")).replace(os.sep, "/")


def _text(name: str) -> str:
    return Path(__file__).parent.joinpath("static", *name.split("/")).read_text(encoding="utf-8")


def _replaced(page: str, old: str, new: str) -> str:
    if page.count(old) != 1:
        raise ValueError(f"{old.strip()!r} is in the page {page.count(old)} times, not once.")
    return page.replace(old, new)


def _hashes(texts: dict[str, str]) -> str:
    """The sources of a policy that allow exactly these scripts or styles."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts.values())
    return " ".join(f"'sha256-{digest}'" for digest in digests)
