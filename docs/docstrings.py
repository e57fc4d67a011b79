"""A griffe extension for the API reference: docstrings as Markdown.

Lines of a name, two or more spaces and words become lists, and doctests become code blocks.
"""

import re
from typing import Any

import griffe

ROW = re.compile(r"^(\w+(?:(?: and |, )\w+)*) {2,}(\S.*)$")
DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def markdown(docstring: str) -> str:
    """Return the same text as Markdown.

    >>> markdown("Words.\\n\\nname   what it is,\\n       at length\\nother  more")
    'Words.\\n\\n- **name**: what it is,\\n  at length\\n- **other**: more'
    """
    lines, listed = [], False
    for line in docstring.splitlines():
        if found := ROW.match(line):
            lines.append(f"- **{found[1]}**: {found[2]}")
            listed = True
        elif listed and line.startswith("   "):
            lines.append("  " + line.strip())
        else:
            listed = False
            lines.append(line)
    return DOCTEST.sub(r"```pycon\n\g<0>\n```", "\n".join(lines))


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is collected."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
