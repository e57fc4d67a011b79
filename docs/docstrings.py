"""A griffe extension: lines of a name, two or more spaces and words become lists in the API reference."""

import re
from typing import Any

import griffe

ROW = re.compile(r"^(\w+(?:(?: and |, )\w+)*) {2,}(\S.*)$")


def listed(docstring: str) -> str:
    """Return the same text with Markdown lists.

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


class Lists(griffe.Extension):
    """Rewrites every docstring as it is collected."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)
