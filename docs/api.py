"""Build the reference of the public API, from docstrings: python docs/api.py FOLDER.

Docstrings explain parameters and fields in lines of a name, two or more spaces, and words; here they become lists.
"""

import re
import sys
from importlib import import_module
from pathlib import Path

import pdoc
import pdoc.docstrings
import pdoc.render

import dqam

MODULES = (
    "dqam",
    "dqam.publishing.pipeline",
    "dqam.release.release",
    "dqam.release.file",
    "dqam.release.export",
    "dqam.geometry.rectangles",
    "dqam.publishing.forecast",
    "dqam.mechanisms",
    "!dqam.mechanisms.(?!doubt)",
    "dqam.privacy.budget",
    "dqam.privacy.ledger",
    "dqam.privacy.curator",
    "dqam.statistics.questions",
    "dqam.privacy.noise",
)
ROW = re.compile(r"^(\w+(?:(?: and |, )\w+)*) {2,}(\S.*)$")


def listed(docstring: str, *_: object) -> str:
    """The same with lists, for Markdown.

    >>> listed("Words.\\n\\nname   what it is,\\n       at length\\nother  more")
    'Words.\\n\\n- **name**: what it is,\\n  at length\\n- **other**: more'
    """
    lines, inside = [], False
    for line in docstring.splitlines():
        if found := ROW.match(line):
            lines.append(f"- **{found[1]}**: {found[2]}")
            inside = True
        elif inside and line.startswith("   "):
            lines.append("  " + line.strip())
        else:
            inside = False
            lines.append(line)
    return "\n".join(lines)


def contents() -> str:
    """A list of the modules, each with the first sentence of its docstring."""
    names = [name for name in MODULES[1:] if not name.startswith("!")]
    words = {name: (import_module(name).__doc__ or "").partition("\n")[0] for name in names}
    return "\n".join(["", "Further modules:", "", *(f"- `{name}`: {words[name]}" for name in names)])


if __name__ == "__main__":
    dqam.__doc__ = f"{dqam.__doc__}\n{contents()}"
    pdoc.docstrings.convert = listed
    pdoc.render.configure(docformat="markdown", footer_text="dqam", show_source=False)
    pdoc.pdoc(*MODULES, output_directory=Path(sys.argv[1]))
