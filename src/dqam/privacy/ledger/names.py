"""Names of data sets: names that look alike are the same data set, so that none gets a second budget."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from dqam.errors import InputError

LONGEST = 200  # characters
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\u2800\U0001d159\U000e0000-\U000e0fff]"
)


def canonical_name(name: str) -> str:
    """The spelling under which the ledger stores a name, whatever its case, spacing and Unicode form.

    >>> canonical_name("  Taxis\u200b  OF\u00a02024 ")
    'taxis of 2024'
    """
    if not isinstance(name, str):
        raise InputError(f"The name of a data set must be a string; got {name!r}.")
    visible = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    plain = unicodedata.normalize("NFKC", " ".join(part for part in visible.split(" ") if part).casefold())
    if not plain or len(plain) > LONGEST or any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in plain):
        start = plain if len(plain) <= 40 else plain[:40] + "..."
        raise InputError(f"The name of a data set must have 1 to {LONGEST} characters, all printable; got {start!r}.")
    return plain


def looks(name: str) -> frozenset[str]:
    """How a canonical name looks in lower and in upper case; names that share a look are one data set.

    A look is a skeleton as in Unicode's TR39, in which characters that are easily confused are the same: "x" in all
    scripts, but also "m" and "rn", "1" and "l" in lower case, and "1" and "I" in upper case. If two names are taken for
    one by mistake, their data sets share a budget, which is safe; choosing a more different name avoids it.

    >>> sorted(looks("ta\u0445is") & looks("taxis")), looks("march") & looks("april")
    (['TAXlS', 'taxis'], frozenset())
    """
    return frozenset(map(_skeleton, (name, name.upper())))


def _skeleton(text: str) -> str:
    plain = INVISIBLE.sub("", unicodedata.normalize("NFD", text))
    plain = re.sub("(?<=[ij])\u0307", "", plain)  # a dot over a letter that already has one
    return unicodedata.normalize("NFD", plain.translate(_prototypes()).translate(_prototypes()))


@cache
def _prototypes() -> dict[int, str]:
    """For each character that can be confused with others, one text that stands for all of them.

    For each character, the library lists those that it is mapped to or from: a star around the prototype. So a
    character with a single neighbour is mapped to that neighbour. If two characters have only each other, they are
    mapped to the longer one or, if both are single characters, to the smaller. Direction marks belong to the library's
    listing, not to the character.
    """
    from confusable_homoglyphs.confusables import confusables_data

    listed = {
        char.strip("\u200e"): [each["c"].strip("\u200e") for each in near] for char, near in confusables_data.items()
    }
    alone = {char: near[0] for char, near in listed.items() if len(char) == len(near) == 1}
    return {
        ord(char): other for char, other in alone.items() if len(other) > 1 or len(listed[other]) > 1 or other < char
    }
