"""A page about a release for whoever relies on it: the map, the promise in plain words, what answers are worth.

One HTML file that loads nothing and runs nothing. All in it is computed from the release; whatever a release holds in
words is escaped, as anyone may have written it. The frame is in report.html.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqam.grid import Grid, is_degrees, parse_crs
from dqam.mechanisms import MECHANISMS
from dqam.partition.lattice import Lattice
from dqam.privacy.curator import Entry
from dqam.rectangles import Snapped, random_rectangles, snap
from dqam.release.release import CONFIDENCE, Answer, Provenance, Release
from dqam.statistics import FLUX, MASS, SHADOW

BLOCKS = 256  # along the longer side of the picture, at most
DECADES = 4  # that the colours tell apart
TRIED = 20_000  # random rectangles
SIZES = (0.0, 0.01, 0.1, 0.3, math.inf)  # shares of the map between which rectangles are put together
PRIORS = (0.01, 0.1, 0.5)
WEAK = 5  # an epsilon from which on the page says so

NOWHERE = "0b1320"
CIVIDIS = "00224e 003170 2a3f6d 434e6c 575d6d 6a6c71 7d7c78 918b78 a59c74 bcae6c d2c060 e9d34e fee838".split()

# what the names in the ledger ask, and in which units its numbers are
QUESTIONS = {
    "number of trips": ("How many trips are on the map?", 1),
    "sum of distinct trips": ("What do the counts of all the public rectangles add up to?", 1),
    "distinct trips": ("How many trips pass through that rectangle?", 1),
    "query errors": ("At which public rectangle is the draft of the map furthest off?", 1),
    "endpoints by region": ("How many trips start and end in each region?", 1),
    "flux by region": ("How often do trips cross from cell to cell, in each region?", FLUX),
    "walk length quantile": ("How long are most trips? The few longer ones count less.", 1),
    "shadows": ("Where do trips start and end, and how many cross each line of a coarse lattice?", SHADOW),
    "shadow size quantile": ("How much do most trips weigh in the next question? The few heavier ones count less.", 1),
    "cell shares": ("How much of the trips lies in each cell, if every trip counts 1 in all?", MASS),
    "shares by group": ("How much of the trips lies in each group of cells, if every trip counts 1 in all?", MASS),
    "uniformity costs": ("How unevenly do the trips lie within each region?", MASS),
    "privtree": ("Where do trips lie so densely that the map should be finer?", MASS),
    "l1 buckets": ("Which neighbouring cells are so alike that they can be counted together?", MASS),
}
KINDS = {"measure": "numbers with noise", "select": "a noisy choice", "partition": "a noisy grouping of cells"}
HEADINGS = {
    "map": "Map",
    "promise": "Promise",
    "budget": "Budget",
    "error": "Error",
    "answers": "Answers",
    "query": "Ask it yourself",
    "cite": "Cite",
    "details": "Parameters",
}


def report(release: Release) -> str:
    """One HTML page that explains a release."""
    from dqam import __version__

    provenance = release.provenance
    private = provenance.private
    title = _plain(provenance.title) if private else f"NOT PRIVATE: {_plain(provenance.title)}"
    examples = _examples(release.grid)
    middle, bounds = examples["The middle"], _short(examples["The middle"], release.grid)
    contents = (f'<a href="#{name}">{words}</a>' for name, words in HEADINGS.items() if private or name != "promise")
    hidden = "trip is among them" if provenance.unit.name == "trip" else "person's trips are among them"
    page = Template(files("dqam.release").joinpath("report.html").read_text(encoding="utf-8")).substitute(
        page_title=title,
        banner="" if private else _banner(),
        title=_plain(provenance.title),
        byline=_byline(provenance),
        nature=f"The trips themselves are not in it, and noise hides whether any one {hidden}." if private else "",
        facts=_facts(release),
        contents=" ".join(contents),
        map=_map(release),
        promise=_promise(release) if private else "",
        budget=_budget(provenance),
        error=_error(release),
        answers=_answers(release, examples),
        coordinates=_coordinates(release.grid),
        bounds=" ".join(bounds),
        arguments=", ".join(bounds),
        answer=_answer(release, middle),
        **_nearest(release, middle),
        citation=_citation(provenance),
        bibtex=_bibtex(provenance),
        details=_details(release),
        version=_plain(__version__),
    )
    return page.encode("utf-8", "replace").decode()  # half a surrogate can not be written to a file


def png(indices: NDArray[np.uint8], palette: NDArray[np.uint8]) -> bytes:
    """A picture of colours of the palette (uint8[n, 3]), the first row at the top.

    >>> png(np.zeros((1, 1), np.uint8), np.zeros((1, 3), np.uint8))[1:4]
    b'PNG'
    """

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = indices.shape
    lines = np.pad(indices, ((0, 0), (1, 0)))  # each begins with the number of its filter: none
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + chunk(b"PLTE", palette.astype(np.uint8).tobytes())
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


def _plain(value: object) -> str:
    """Anything as text that is safe in HTML, between tags and in attributes."""
    return escape(str(value))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1, foot: Sequence[str] = ()) -> str:
    """A table of cells that are HTML already, the first of a row its heading; numbers after `words` columns."""

    def line(cells: Sequence[str], first: str, rest: str) -> str:
        kinds = ["words" if i < words else "n" for i in range(len(cells))]
        tags = [first, *[rest] * (len(cells) - 1)]
        scope = ["scope=row" if tag == "th" != rest else "scope=col" if tag == "th" else "" for tag in tags]
        parts = zip(tags, kinds, scope, cells, strict=True)
        return "<tr>" + "".join(f'<{tag} class="{kind}" {at}>{cell}</{tag}>' for tag, kind, at, cell in parts) + "</tr>"

    body = "".join(line(row, "th", "td") for row in rows)
    end = f"<tfoot>{line(foot, 'th', 'td')}</tfoot>" if foot else ""
    return (
        f'<div class="wide"><table><thead>{line(header, "th", "th")}</thead><tbody>{body}</tbody>{end}</table></div>\n'
    )


def _list(items: Iterable[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{item}</li>\n" for item in items) + "</ul>\n"


def _banner() -> str:
    return (
        '<div class="banner" role="alert"><strong>NOT PRIVATE</strong><p>Made with noise from a seed, for tests and '
        "experiments: who knows the seed can take the noise away. It comes with no promise. Do not publish it, nor "
        "this page.</p></div>"
    )


def _byline(provenance: Provenance) -> str:
    made, stamp = ("Published" if provenance.private else "Made"), _when(provenance)
    when = _plain(provenance.created) if stamp is None else f"{stamp.day} {stamp:%B %Y, %H:%M} UTC"
    return (
        f'{made} <time datetime="{_plain(provenance.created)}">{when}</time> under the id '
        f"<code>{_plain(provenance.id)}</code>. The file does not name its publisher."
    )


def _when(provenance: Provenance) -> datetime | None:
    try:
        return datetime.fromisoformat(str(provenance.created)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _facts(release: Release) -> str:
    """The four things to know first."""
    provenance, grid, trips = release.provenance, release.grid, release.trips
    unit = provenance.unit
    whose = "for one trip" if unit.name == "trip" else f"for one person, of whom at most {unit.max_trips} trips count"
    interval = f"{_trips(trips.low)} to {_trips(trips.high)}, {CONFIDENCE:.0%} interval".replace("%", " %")
    ground = _ground(grid)
    size = "" if ground is None else f"{_length(ground[0])} × {_length(ground[1])}"
    about = MECHANISMS[provenance.mechanism].about if provenance.mechanism in MECHANISMS else ""
    shown = [
        ("Distinct trips", _trips(trips.value), "estimate, without interval" if math.isnan(trips.low) else interval),
        ("Privacy", f"ε = {_decimal(provenance.epsilon)}" if provenance.private else "none", whose),
        ("Map", size or f"{grid.columns:,} × {grid.rows:,}", f"{grid.columns:,} × {grid.rows:,} cells"),
        ("Mechanism", _plain(provenance.mechanism), _plain(about)),
    ]
    if not provenance.private:
        shown[1] = ("Privacy", "none", "noise from a seed")
    return "\n".join(f"<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>" for name, value, note in shown)


# numbers for people


def _trips(value: float) -> str:
    return f"{value:,.0f}"


def _percent(share: float) -> str:
    """A share in percent, never rounded to all or nothing."""
    if not math.isfinite(share) or share > 10:
        return "above 1,000 %"
    if 0.9999 < share < 1:
        return "above 99.99 %"
    if 0 < share < 0.0001:
        return "below 0.01 %"
    digits = 0 if share >= 0.995 else 2 if share > 0.99 or share < 0.001 else 1 if share > 0.9 or share < 0.1 else 0
    return f"{100 * share:,.{digits}f} %"


def _decimal(value: Fraction) -> str:
    """A fraction as a decimal, with ≈ and the fraction itself where six digits do not hold it."""
    short = f"{float(value):.6g}"
    return short if Fraction(short) == value else f"≈ {float(value):.4g} ({value})"


def _number(value: float) -> str:
    """Three digits, or all whole ones."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _length(metres: float) -> str:
    """Metres as a distance: km from 1 km on.

    >>> _length(9999.97), _length(39.06), _length(1500)
    ('10 km', '39 m', '1.5 km')
    """
    return f"{float(f'{metres / 1000:.3g}'):,g} km" if metres >= 999.5 else f"{float(f'{metres:.2g}'):g} m"


def _ground(grid: Grid) -> tuple[float, float] | None:
    """Width and height of the map in metres, at its middle; None where that can not be told."""
    width, height = grid.cell_metres[0] * grid.columns, grid.cell_metres[1] * grid.rows
    return (width, height) if 0 < width < math.inf and 0 < height < math.inf else None


def _ends(grid: Grid) -> tuple[str, str, str, str]:
    """The bounds as labels: west, south, east, north."""
    west, south, east, north = grid.bounds
    labels = []
    degrees = is_degrees(grid.crs)
    for value, extent, names in (
        (west, east - west, "WE"),
        (south, north - south, "SN"),
        (east, east - west, "WE"),
        (north, north - south, "SN"),
    ):
        digits = min(9, max(0, 3 - math.floor(math.log10(extent))))
        if degrees:
            labels.append(f"{abs(value):.{digits}f}° {names[value >= 0]}")
        else:
            labels.append(f"{value:,.{digits}f} {_unit_of(grid)}".strip())
    return labels[0], labels[1], labels[2], labels[3]


def _unit_of(grid: Grid) -> str:
    """The unit of the axes."""
    axes = parse_crs(grid.crs).axis_info
    name = axes[0].unit_name if axes else ""
    return {"metre": "m", "kilometre": "km"}.get(name, _plain(name))


# the picture


def _map(release: Release) -> str:
    """The picture with coordinates, scale, north and legend."""
    grid = release.grid
    step = -(-max(grid.shape) // BLOCKS)  # cells along the side of a block
    side = -(-max(grid.shape) // step)
    blocks = release.blocks(side)
    counts = blocks.value.reshape(Lattice.even(grid, side).shape)
    low, high = _range(counts)
    ground = _ground(grid)
    bounds = grid.bounds
    aspect = (bounds[2] - bounds[0]) / (bounds[3] - bounds[1]) if ground is None else ground[0] / ground[1]
    west, south, east, north = _ends(grid)
    place = f"a block of {step} × {step} cells" if step > 1 else "a cell"
    if ground is not None:
        sides = (step * metres for metres in grid.cell_metres)
        place += f" ({' × '.join(map(_length, sides))})"
    beyond = " Less is drawn as the least." if (counts[counts > 0] < low).any() else ""
    true_north = "" if is_degrees(grid.crs) else " Up is north by the grid of its CRS."
    scale = "Scale as at the middle of the map." if ground is not None else ""
    return (
        f'<figure class="map"><div class="plot" style="max-width: calc({aspect:.6g} * 44rem)">'
        f'<div class="side"><span>{south}</span><span>{north}</span></div>'
        f'<div class="plate" style="aspect-ratio: {aspect:.6g}">'
        f'<img alt="{_described(blocks.value, blocks.rectangles, grid, place)}" src="{_picture(counts, low, high)}">'
        f'{_scale(ground)}<span class="up" aria-hidden="true">▲<br>N</span></div>'
        f'<div class="foot"><span>{west}</span><span>{east}</span></div></div>'
        f'<div class="legend"><p>Distinct trips through {place}, by the logarithm</p>{_legend(low, high)}</div>'
        f"<figcaption>North is up.{true_north} {scale}{beyond} Coordinates are those of {_crs_name(grid)}. Single "
        f"{'blocks' if step > 1 else 'cells'} are the least certain: see <a href='#error'>how far off answers may be"
        "</a>.</figcaption></figure>"
    )


def _crs_name(grid: Grid) -> str:
    crs = parse_crs(grid.crs)
    known = crs.to_authority()
    return _plain(crs.name if known is None else f"{crs.name} ({':'.join(known)})")


def _range(counts: NDArray[np.float64]) -> tuple[float, float]:
    """What the darkest and the brightest colour stand for: at least one decade and not too many."""
    high = float(counts.max())
    if high <= 0:
        return 1.0, 10.0
    return min(max(float(counts[counts > 0].min()), high / 10**DECADES), high / 10), high


def _picture(counts: NDArray[np.float64], low: float, high: float) -> str:
    """The counts, rows from the south, as the address of a picture with north at the top."""
    level = np.log(np.clip(counts, low, high) / low) / math.log(high / low)
    indices = np.where(counts > 0, 1 + np.rint(254 * level), 0).astype(np.uint8)
    anchors = np.array([list(bytes.fromhex(colour)) for colour in CIVIDIS], np.float64)
    places = np.linspace(0, 1, len(anchors))
    shades = np.stack([np.interp(np.linspace(0, 1, 255), places, channel) for channel in anchors.T], axis=1)
    palette = np.concatenate([[list(bytes.fromhex(NOWHERE))], np.rint(shades)]).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(png(indices[::-1], palette)).decode()


def _described(values: NDArray[np.float64], places: Snapped, grid: Grid, place: str) -> str:
    """The picture for who can not see it."""
    best = int(np.argmax(values))
    west, south, east, north = places.cells[best]
    x, y = (west + east) / 2 / grid.columns, (south + north) / 2 / grid.rows
    words = [["south", "", "north"][min(2, int(3 * y))], ["west", "", "east"][min(2, int(3 * x))]]
    where = "-".join(word for word in words if word) or "middle"
    return _plain(
        f"Map of the estimated number of distinct trips, north up, brighter for more. The most, about "
        f"{_trips(float(values[best]))} through {place}, are in the {where}; the median is about "
        f"{_number(float(np.median(values)))}."
    )


def _scale(ground: tuple[float, float] | None) -> str:
    """A bar of a round length, at most a quarter of the picture wide."""
    if ground is None:
        return ""
    power = 10 ** math.floor(math.log10(ground[0] / 4))
    length = max(step * power for step in (1, 2, 5) if step * power <= ground[0] / 4)
    label = f"{length / 1000:g} km" if length >= 100 else f"{length:g} m"
    return f'<span class="scale" style="width: {100 * length / ground[0]:.4g}%">{label}</span>'


def _legend(low: float, high: float) -> str:
    """The colours and what they stand for."""
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades <= 2.2 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [tick for power in powers for tick in (step * 10.0**power for step in steps) if low <= tick <= high]
    marks = "".join(
        f'<span style="left: {100 * math.log10(tick / low) / decades:.4g}%">{tick:,g}</span>' for tick in ticks
    )
    shades = ", ".join(f"#{colour}" for colour in CIVIDIS)
    return (
        f'<div class="ramp"><div class="zero"><i style="background: #{NOWHERE}"></i>none</div><div class="shades">'
        f'<i style="background: linear-gradient(to right, {shades})"></i><div class="ticks">{marks}</div></div></div>'
    )


# the promise


def _promise(release: Release) -> str:
    provenance, unit = release.provenance, release.provenance.unit
    epsilon, by_trip = float(provenance.epsilon), unit.name == "trip"
    what = "a certain trip" if by_trip else "a certain person"
    rows = [(_percent(prior), *(_percent(p) for p in _posterior(prior, epsilon))) for prior in PRIORS]
    sure = _percent(_posterior(0.5, epsilon)[1])
    weak = (
        f"<p><strong>This ε is large.</strong> For who already suspects {what} to be in the data, the promise leaves "
        "little doubt: rely on it only together with other protection.</p>"
        if epsilon >= WEAK
        else ""
    )
    return (
        '<section>\n<h2 id="promise">What is promised</h2>\n'
        f"<p><strong>{_plain(provenance.promise)}</strong> Whoever sees this release, whatever else they know and "
        f"however much they compute, learns almost the same as if {what} had never been recorded.</p>\n"
        f"<p>“Almost” is what ε measures. At ε = {_decimal(provenance.epsilon)}, the odds that {what} is in the data "
        f"change by a factor of at most e<sup>ε</sup> = {_factor(epsilon)}, up or down. Who thought it as likely as not, "
        f"50 %, can be at most {sure} sure afterwards:</p>\n"
        + _table(("How sure before", "afterwards at least", "afterwards at most"), rows, 0)
        + weak
        + "<h3>In exact words</h3>\n"
        f"<p>Two data sets are neighbours if {_plain(provenance.neighbours.value)}. For any two neighbours, no outcome is "
        "more than e<sup>ε</sup> times as likely from one as from the other (ε-differential privacy; there is no δ). "
        "The number of trips is not taken as known: it, too, was asked with noise.</p>\n"
        "<h3>Who is hidden</h3>\n"
        + (_hidden_trip(provenance) if by_trip else _hidden_person(provenance))
        + "<h3>What was public and never taken from the data</h3>\n"
        + _list(_public(release))
        + "<h3>What is not promised</h3>\n"
        + _list(_not_promised(by_trip))
        + "</section>"
    )


def _posterior(prior: float, epsilon: float) -> tuple[float, float]:
    """How sure one can be at least and at most, who was `prior` sure before.

    >>> [round(sure, 3) for sure in _posterior(0.5, math.log(3))]
    [0.25, 0.75]
    """
    less = math.exp(-epsilon)
    return prior * less / (prior * less + 1 - prior), prior / (prior + (1 - prior) * less)


def _factor(epsilon: float) -> str:
    if epsilon > math.log(1e6):
        return "more than a million"
    return _number(math.exp(epsilon)) if epsilon >= 0.1 else f"{math.exp(epsilon):.4g}"


def _hidden_trip(provenance: Provenance) -> str:
    rows = []
    for trips in (2, 5, 10):
        whole = trips * provenance.epsilon
        rows.append((f"{trips} trips", _decimal(whole), _percent(_posterior(0.5, float(whole))[1])))
    return (
        "<p>The unit is <strong>one trip</strong>, as the custodian’s data have it. The release hides whether any one "
        "trip is in the data, and where it went.</p>\n"
        "<p>It hides less of a person with several trips: <em>k</em> trips together are hidden with <em>k</em> ε only. "
        "Someone who goes the same way every day is not protected by this number, but by that one:</p>\n"
        + _table(("A person with", "ε for all of them", "50 % sure before, at most after"), rows)
    )


def _hidden_person(provenance: Provenance) -> str:
    most = provenance.unit.max_trips
    return (
        f"<p>The unit is <strong>one person</strong>, with all that is on record of them. Of each person’s trips at most "
        f"{most:,} {'was' if most == 1 else 'were'} kept, chosen at random; the others were left out before anything was "
        "asked, so that even a person with many more is hidden with the whole of this promise. All counts are of the "
        f"trips kept: where people made more than {most:,}, there were more trips than the map says.</p>\n"
        "<p>Who a person is, is what the custodian’s data say. Someone with two accounts is two persons there, and hidden "
        "with 2 ε; two people who share a trip are hidden one by one.</p>\n"
    )


def _public(release: Release) -> list[str]:
    provenance = release.provenance
    items = [
        f"the grid and its bounds: {_plain(release.grid)}",
        f"ε, the unit, the mechanism ({_plain(provenance.mechanism)}) and all its parameters, which are "
        '<a href="#details">below</a>',
        f"the rectangles that the map should be good at: {_plain(provenance.queries)}",
        "the title, which the publisher wrote",
    ]
    if provenance.gap:
        items.insert(
            3,
            f"at which silence of the GPS trips were cut: {_plain(provenance.gap)}. The pieces of a trip are one trip "
            "still",
        )
    return [*items, "which questions are asked, by public rules from what earlier questions were answered"]


def _not_promised(by_trip: bool) -> list[str]:
    whom = "a trip" if by_trip else "a person"
    return [
        "That nothing is learned about crowds: that is what the map is for. What it shows of a neighbourhood may say "
        "something about all who live there, in the data or not.",
        f"That the numbers are right. Noise hides {whom}, and it moves <a href='#error'>the answers</a>.",
        "Anything about other publications. What is published of the same data adds up: two releases with ε each are "
        "one with 2 ε to who has both. The custodian’s ledger keeps count; this page knows of this release alone.",
        "Anything about what is seen beside the release: how long the computation took, how much memory it used, the "
        "custodian’s logs, backups and staff. The raw trips need guarding as before.",
        "Who made the file. Its seal shows that it is as it was saved; it is no signature.",
    ]


# the budget


def _budget(provenance: Provenance) -> str:
    """What was asked; questions that are alike in all share a row."""
    unit, alike = provenance.unit.name, Counter(provenance.ledger)
    rows = []
    for entry, times in alike.items():
        words, parts = _question(entry)
        paid = times * entry.epsilon
        each = "" if times == 1 else f"<small>{times} × {_decimal(entry.epsilon)}</small>"
        rows.append(
            (
                f"{words}<small>{_plain(entry.name)}: {KINDS.get(entry.question, _plain(entry.question))}</small>",
                f"{times:,}",
                _number(entry.sensitivity / parts),
                _number(float(entry.scale / parts)),
                f"{_decimal(paid)}{each}",
                _percent(float(paid / provenance.epsilon)) if len(alike) > 1 else "100 %",
            )
        )
    header = ("Question", "Times", f"One {unit} changes<br>it by at most", "Noise<br>scale", "ε", "Share")
    count = len(provenance.ledger)
    foot = ("All together", f"{count:,}", "", "", _decimal(provenance.epsilon), "100 %")
    asked = f"{count} questions were" if count > 1 else "One question was"
    known = (
        "No more than this is known of the trips"
        if provenance.private
        else "With noise that nobody can know in advance, no more than this would be known of the trips"
    )
    return (
        f"<p>Every number on this page comes from the answers to {count} noisy "
        f"question{'s' if count > 1 else ''}. {asked} asked of the trips, and each was paid for with a part of ε before "
        f"it was answered. The parts are exact fractions and add up to ε = {_decimal(provenance.epsilon)} exactly; a "
        f"release where they do not is refused. {known}.</p>\n"
        + _table(header, rows, foot=foot)
        + f'<p class="note">Noise is discrete Laplace noise on whole numbers: half of the time it is within 0.7 scales, '
        f"in nine of ten cases within 2.3. Its scale is what one {unit} can change, divided by ε; twice that for a choice, "
        "and wider for a grouping. For vectors, the change is the sum over all their numbers.</p>\n"
    )


def _question(entry: Entry) -> tuple[str, int]:
    """What an entry asks, and how many of its units are one."""
    words, parts = QUESTIONS.get(entry.name.partition(",")[0], (entry.name, 1))
    return _plain(words), parts


# what answers are worth


def _error(release: Release) -> str:
    """Answers and intervals of random rectangles by their size."""
    grid, private = release.grid, release.provenance.private
    cells = random_rectangles(grid, TRIED, np.random.default_rng(0))
    answers = release.counts(Snapped.of(cells, grid))
    share = (cells[:, 2] - cells[:, 0]) * (cells[:, 3] - cells[:, 1]) / (grid.rows * grid.columns)
    half = (answers.high - answers.low) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(half == 0, 0.0, half / answers.value)
    ground = _ground(grid)
    rows, bars = [], []
    for low, high in zip(SIZES[:-1], SIZES[1:], strict=True):
        inside = (low <= share) & (share < high)
        name, found = _size(low, high), int(np.count_nonzero(inside))
        row = [name]
        if ground is not None:
            square = ground[0] * ground[1] / 1e6
            row.append(_area(low * square, min(high, 1.0) * square))
        row.append(f"{found:,}")
        if not found:
            rows.append((*row, *["none"] * (1 if release.doubt is None else 3)))
            continue
        row.append(_trips(float(np.median(answers.value[inside]))))
        if release.doubt is not None:
            ratio = float(np.median(relative[inside]))
            row += [f"± {_trips(float(np.median(half[inside])))}", f"± {_percent(ratio)}"]
            bars.append((name, ratio))
        rows.append(tuple(row))
    header = ["Part of the map", *(["km²"] if ground is not None else []), "Rectangles", "Typical answer"]
    drawn = f"<p>{TRIED:,} random rectangles were asked, every rectangle of the map equally likely. "
    if release.doubt is None:
        return (
            f"<p><strong>The mechanism {_plain(release.provenance.mechanism)} gives no intervals:</strong> how far an "
            "answer may be off is not known from this release. Answers of small rectangles, with few trips, are "
            f"usually the worst.</p>\n{drawn}Typical is the median of those of a size.</p>\n" + _table(header, rows)
        )
    header += ["Half-width", "Half-width by answer"]
    fresh = "the noise of this release" if private else "noise as that of this release"
    return (
        f"{drawn}The half-width is that of the {CONFIDENCE * 100:.0f} % interval. Given are the medians of those of a "
        "size: half of them are better, half are worse.</p>\n"
        + _table(header, rows)
        + _bars(bars)
        + f"<p>The intervals cost no privacy: they come from drawing {fresh} again, and from what such a map can not "
        "tell, as trips that come back. They were set by trials on several cities; that nine in ten hold is what was "
        "found there, and no guarantee.</p>\n"
    )


def _size(low: float, high: float) -> str:
    if low == 0:
        return f"below {100 * high:g} %"
    return f"above {100 * low:g} %" if math.isinf(high) else f"{100 * low:g} to {100 * high:g} %"


def _area(low: float, high: float) -> str:
    return f"to {high:,.3g}" if low == 0 else f"{low:,.3g} to {high:,.3g}"


def _bars(bars: Sequence[tuple[str, float]]) -> str:
    """Bars of half-widths; those beyond twice the answer are cut there."""
    longest = max((min(ratio, 2.0) for _, ratio in bars), default=0) or 1.0
    lines = []
    for i, (name, ratio) in enumerate(bars):
        wide, top = 72 * min(ratio, 2.0) / longest, 46 * i
        lines.append(
            f'<text x="0" y="{top + 14}">{name} of the map</text>'
            f'<rect x="0" y="{top + 20}" width="{wide:.4g}%" height="16" rx="2"/>'
            f'<text x="{wide:.4g}%" dx="8" y="{top + 33}">± {_percent(ratio)}</text>'
        )
    told = "; ".join(f"{name} of the map: ± {_percent(ratio)}" for name, ratio in bars)
    return (
        f'<figure><svg class="bars" role="img" aria-label="Half-width of the interval by the answer. {told}." '
        f'width="100%" height="{46 * len(bars)}">{"".join(lines)}</svg><figcaption>Half-width of the '
        f"{CONFIDENCE * 100:.0f} % interval as a part of the answer, by the size of the rectangle.</figcaption></figure>\n"
    )


def _examples(grid: Grid) -> dict[str, NDArray[np.int64]]:
    """Some rectangles of cells by name; on the narrowest grids some are the same."""
    rows, columns = grid.shape
    x, y = columns // 2, rows // 2
    a, b = columns // 4, rows // 4
    named = {
        "The whole map": (0, 0, columns, rows),
        "North-west quarter": (0, y, x, rows),
        "North-east quarter": (x, y, columns, rows),
        "South-west quarter": (0, 0, x, y),
        "South-east quarter": (x, 0, columns, y),
        "The middle": (a, b, columns - a, rows - b),
        "The heart of the middle": (
            columns * 7 // 16,
            rows * 7 // 16,
            columns - columns * 7 // 16,
            rows - rows * 7 // 16,
        ),
    }
    return {name: np.array(lines) for name, lines in named.items() if lines[0] < lines[2] and lines[1] < lines[3]}


def _answers(release: Release, examples: dict[str, NDArray[np.int64]]) -> str:
    grid, rows = release.grid, []
    for name, lines in examples.items():
        answer = release.counts(Snapped.of(lines[None, :], grid))[0]
        place = " ".join(_short(lines, grid))
        row = [f"{_icon(lines, grid)}{name}", f"<code>{place}</code>", _trips(answer.value)]
        if release.doubt is not None:
            row.append(f"{_trips(answer.low)} to {_trips(answer.high)}")
        rows.append(row)
    header = ["Rectangle", "West south east north", "Trips"]
    if release.doubt is not None:
        header.append(f"{CONFIDENCE * 100:.0f} % interval")
    return (
        "<p>Parts need not add up to the whole: a trip through two quarters counts in both, and once on the map.</p>\n"
        + _table(header, rows, 2)
    )


def _icon(lines: NDArray[np.int64], grid: Grid) -> str:
    """Where a rectangle is, very small."""
    west, south, east, north = (
        20 * float(line) / cells for line, cells in zip(lines, (grid.columns, grid.rows) * 2, strict=True)
    )
    return (
        '<svg class="where" width="22" height="22" viewBox="-1 -1 22 22" aria-hidden="true">'
        f'<rect class="part" x="{west:.3g}" y="{20 - north:.3g}" width="{east - west:.3g}" height="{north - south:.3g}"/>'
        '<rect class="whole" x="0" y="0" width="20" height="20"/></svg>'
    )


def _short(lines: NDArray[np.int64], grid: Grid) -> list[str]:
    """The sides of a rectangle of cells with as few decimals as lead back to it."""
    exact = Snapped.of(lines[None, :], grid).bounds[0]
    for digits in range(17):
        rounded = np.round(exact, digits)
        if (rounded[:2] < rounded[2:]).all():
            again = snap(rounded[None, :], grid)
            if not again.grown[0] and not again.cut[0] and np.array_equal(again.cells[0], lines):
                return [f"{side:.{digits}f}" for side in rounded]
    return [repr(float(side)) for side in exact]


# asking and citing


def _coordinates(grid: Grid) -> str:
    if is_degrees(grid.crs):
        return "Sides are given as west, south, east, north, in degrees."
    return f"Sides are given as west, south, east, north, in the coordinates of {_crs_name(grid)}."


def _answer(release: Release, lines: NDArray[np.int64]) -> str:
    return _plain(release.counts(Snapped.of(lines[None, :], release.grid))[0])


def _nearest(release: Release, lines: NDArray[np.int64]) -> dict[str, str]:
    """How xarray is asked for the cell in the middle, and what it says."""
    grid = release.grid
    column, row = (int(low + high) // 2 for low, high in ((lines[0], lines[2]), (lines[1], lines[3])))
    x, y = grid.from_cells(np.array([column + 0.5]), np.array([row + 0.5]))
    names = ("lon", "lat") if is_degrees(grid.crs) else ("x", "y")
    nearest = ", ".join(f"{name}={value[0]:.9g}" for name, value in zip(names, (x, y), strict=True))
    return {"nearest": nearest, "cell": f"{float(release.histogram.faces[row, column]):.6g}"}


def _citation(provenance: Provenance) -> str:
    when = _when(provenance)
    year = "n.d." if when is None else str(when.year)
    return (
        f"<em>{_plain(provenance.title)}</em> ({year}). Map of distinct trips. {_plain(provenance.promise)} Made with dqam "
        f"{_plain(provenance.versions.get('dqam', ''))}, mechanism {_plain(provenance.mechanism)}. "
        f"Publication <code>{_plain(provenance.id)}</code>."
    )


def _bibtex(provenance: Provenance) -> str:
    when = _when(provenance)
    signs = {**{sign: f"\\{sign}" for sign in "{}$&#%_"}, "\\": r"\textbackslash ", "~": r"\~{}", "^": r"\^{}"}
    key = "".join(sign for sign in str(provenance.id) if sign.isalnum() and sign.isascii())[:12]

    def tex(value: Any) -> str:
        return "".join(signs.get(sign, sign) for sign in " ".join(str(value).split()))

    fields = {
        "author": "{[Publisher]}",
        "title": f"{{{tex(provenance.title)}}}",
        "year": "n.d." if when is None else str(when.year),
        "howpublished": f"Map of distinct trips, made with dqam {tex(provenance.versions.get('dqam', ''))}",
        "note": f"Publication {tex(provenance.id)}. {tex(provenance.promise)}",
    }
    lines = "\n".join(f"  {name:<12} = {{{value}}}," for name, value in fields.items())
    return _plain(f"@misc{{dqam-{key},\n{lines}\n}}")


def _details(release: Release) -> str:
    provenance, grid = release.provenance, release.grid
    unit = provenance.unit
    rows: list[tuple[str, Any]] = [
        ("Id", provenance.id),
        ("Created", provenance.created),
        ("Private", "yes" if provenance.private else "NO: noise from a seed"),
        ("ε", f"{provenance.epsilon}"),
        ("Unit", "trip" if unit.name == "trip" else f"person, at most {unit.max_trips:,} trips"),
        ("Neighbours", provenance.neighbours.value),
        ("Mechanism", provenance.mechanism),
        *(
            (f"– {name}", "by its own rule" if value is None else value)
            for name, value in provenance.parameters.items()
        ),
        ("Rectangles", provenance.queries),
        ("Trips cut at", provenance.gap or "no silence of the GPS"),
        ("Grid", f"{grid.rows:,} rows × {grid.columns:,} columns"),
        ("Bounds", " ".join(repr(side) for side in grid.bounds)),
        ("CRS", grid.crs),
        *provenance.versions.items(),
    ]
    body = "".join(f"<tr><th scope=row>{_plain(name)}</th><td>{_plain(value)}</td></tr>" for name, value in rows)
    return f'<div class="wide"><table class="key"><tbody>{body}</tbody></table></div>'
