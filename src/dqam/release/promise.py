"""The promise of a release in plain words, with its own numbers, and what its budget was spent on."""

from __future__ import annotations

import math
from collections import Counter

from dqam.release.markup import bullets, decimal, number, percent, plain, table
from dqam.release.release import Provenance, Release
from dqam.statistics.questions import FLUX
from dqam.statistics.records import MASS, SHADOW
from dqam.values.guarantee import LedgerEntry

PRIORS = (0.01, 0.1, 0.5)
SEVERAL = (2, 5, 10)  # trips of one person
WEAK = 5  # the epsilon from which on the page says so

# what the names in the ledger ask, and how many of the units that they are counted in make one
QUESTIONS = {
    "number of trips": ("How many trips are on the map?", 1),
    "rectangles met and missed": ("How many of the public rectangles do trips meet and miss, added up?", 1),
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


def posterior(prior: float, epsilon: float) -> tuple[float, float]:
    """How sure one can be at least and at most that a unit is in the data, who was `prior` sure before.

    >>> [round(sure, 3) for sure in posterior(0.5, math.log(3))]
    [0.25, 0.75]
    """
    less = math.exp(-epsilon)
    return prior * less / (prior * less + 1 - prior), prior / (prior + (1 - prior) * less)


def promise(release: Release) -> str:
    """What is promised, to whom, and what is not."""
    provenance, by_trip = release.provenance, release.provenance.unit.name == "trip"
    epsilon = float(provenance.epsilon)
    what = "a certain trip" if by_trip else "a certain person"
    rows = [(percent(prior), *_sure(prior, epsilon)) for prior in PRIORS]
    most = _sure(0.5, epsilon)[1]
    weak = (
        f"<p><strong>This ε is large.</strong> To someone who already suspects that {what} is in the data, the promise "
        "leaves little doubt. Do not rely on it alone.</p>\n"
        if epsilon >= WEAK
        else ""
    )
    return (
        '<section>\n<h2 id="promise">What is promised</h2>\n'
        f"<p><strong>{plain(provenance.promise)}</strong> Whoever sees this release, whatever else they know and "
        f"however much they compute, learns almost the same as if {what} had never been recorded.</p>\n"
        f"<p>&ldquo;Almost&rdquo; is what ε (epsilon) measures. At ε&nbsp;=&nbsp;{decimal(provenance.epsilon)} the "
        f"odds that {what} is in the data change by a factor of at most e<sup>ε</sup> ≈ {_factor(epsilon)}, up "
        f"or down. Someone who thought it as likely as not, 50&nbsp;%, can be at most {most} sure afterwards, if their "
        "beliefs about all others do not depend on it:</p>\n"
        + table(("How sure before", "Afterwards at least", "Afterwards at most"), rows)
        + weak
        + "<h3>In exact words</h3>\n"
        f"<p>Two data sets are neighbours if {plain(provenance.neighbours.value)}. No outcome is more than "
        f"e<sup>ε</sup> times as likely from a data set as from any neighbour of it{_failure(provenance)} "
        "The number of trips is not assumed to be known: it, too, was measured with noise.</p>\n"
        "<h3>Who is hidden</h3>\n"
        + (_hidden_trip(provenance) if by_trip else _hidden_person(provenance))
        + "<h3>What was public, and never taken from the data</h3>\n"
        + bullets(_public(release))
        + "<h3>What is not promised</h3>\n"
        + bullets(_not_promised("a trip" if by_trip else "a person"))
        + "</section>"
    )


def _failure(provenance: Provenance) -> str:
    """Whether there is a δ: only the noise of DAWA's buckets, which nobody sees, can be clamped to 64 bits."""
    if any(entry.name == "l1 buckets" for entry in provenance.ledger):
        return (
            ", except with a chance below 10<sup>-47</sup> that the noise of the buckets does not fit 64 bits. This is "
            "(ε,&nbsp;δ)-differential privacy with δ&nbsp;&lt;&nbsp;10<sup>-47</sup>."
        )
    return ". This is ε-differential privacy, without a δ."


def _sure(prior: float, epsilon: float) -> tuple[str, str]:
    r"""At least and at most in words, rounded away from the prior, so that neither says too much.

    >>> _sure(0.5, 1), _sure(0.5, 99)
    (('26.8\xa0%', '73.2\xa0%'), ('nearly 0\xa0%', 'nearly 100\xa0%'))
    """
    least, most = posterior(prior, epsilon)
    low, high = (10 ** (3 if 0.01 < share < 0.99 else 4) for share in (least, most))
    return (
        percent(math.floor(least * low) / low, 3) if least > 2e-4 else "nearly 0\xa0%",
        percent(math.ceil(most * high) / high, 3) if most < 1 - 2e-4 else "nearly 100\xa0%",
    )


def _factor(epsilon: float) -> str:
    if epsilon > math.log(1e6):
        return "more than a million"
    return number(math.exp(epsilon)) if epsilon >= 0.1 else f"{math.exp(epsilon):.4g}"


def _hidden_trip(provenance: Provenance) -> str:
    rows = []
    for count in SEVERAL:
        whole = count * provenance.epsilon
        rows.append((f"{count} trips", decimal(whole), _sure(0.5, float(whole))[1]))
    unit = (
        "The unit is <strong>one row</strong> of the custodian's data, which had no trip ids: every row was treated "
        "as a trip. A trip that was in several rows counts as several trips here."
        if provenance.row_is_trip
        else "The unit is <strong>one trip</strong>: all rows with one trip id in the custodian's data."
    )
    return (
        f"<p>{unit} The release hides whether any one trip is in the data. From someone who knows that a trip is "
        "in the data, it hides where the trip went with 2&nbsp;ε: one trip is removed, and another added.</p>\n"
        "<p>It does not hide a person as well as that: <em>k</em> trips together are hidden with <em>k</em>&nbsp;ε "
        "only. For someone who goes the same way every day, count all these trips.</p>\n"
        + table(("A person with", "ε for all of them", "50&nbsp;% sure before, afterwards at most"), rows)
    )


def _hidden_person(provenance: Provenance) -> str:
    most = provenance.unit.max_trips
    kept = "One trip of each person was kept" if most == 1 else f"At most {most:,} trips of each person were kept"
    return (
        f"<p>The unit is <strong>one person</strong>, with all that is on record of them. {kept}, chosen at random; "
        "all others were left out before anything was asked. So a person with many more trips is hidden with the whole "
        "of this promise, too. All counts are of the trips kept: where people made more, the map says less than there "
        "were.</p>\n"
        "<p>The custodian's data say who is one person. Someone with two accounts is two persons there, and hidden "
        "with 2&nbsp;ε.</p>\n"
    )


def _public(release: Release) -> list[str]:
    provenance = release.provenance
    gap = f"at which silence of the GPS trips were cut: {plain(provenance.gap)}; the pieces of one are still one trip"
    return [
        f"the grid and its bounds: {plain(release.grid)}",
        f"ε, the unit, the mechanism ({plain(provenance.mechanism)}) and all its parameters, listed "
        '<a href="#details">below</a>',
        f"the rectangles that the map should be good at: {plain(provenance.queries)}",
        *([gap] if provenance.gap else []),
        "the rules by which questions follow from the answers to earlier ones",
        "the title, which the publisher wrote",
    ]


def _not_promised(whom: str) -> list[str]:
    return [
        "That nothing is learned about crowds: that is what the map is for. What it shows of a neighbourhood may say "
        "something about all who live there, in the data or not.",
        f'That the numbers are right. Noise hides {whom}, and it moves <a href="#error">the answers</a>.',
        "Anything about other publications. What is published of the same data adds up: to someone who has two "
        "releases with ε each, they are one with 2&nbsp;ε. The custodian's ledger keeps count; this page knows only of "
        "this release.",
        "Anything about what can be seen beside the release: how long the computation took and how much memory it "
        "used, the custodian's messages, logs, ledger, temporary files, backups and staff. The raw trips must be "
        "protected as before. The existence of this release is part of the promise: no single row could have stopped "
        "it.",
        "Who made the file. Its seal shows that it is as it was saved, and is no signature.",
    ]


def budget(provenance: Provenance) -> str:
    """What was asked for how much of epsilon; questions that are alike in all share a row."""
    unit, count, alike = provenance.unit.name, len(provenance.ledger), Counter(provenance.ledger)
    again, rows = len(alike) < count, []
    for entry, times in alike.items():
        words, parts = _question(entry)
        paid = times * entry.epsilon
        each = "" if times == 1 else f"<small>{times} &times; {entry.epsilon}</small>"
        rows.append(
            (
                f"{words}<small>{plain(entry.name)}: {KINDS.get(entry.question, plain(entry.question))}</small>",
                *([f"{times:,}"] if again else []),
                number(entry.sensitivity / parts),
                number(float(entry.scale / parts)),
                f"{decimal(paid)}{each}",
                percent(float(paid / provenance.epsilon)),
            )
        )
    header = (
        "Question",
        *(["Times"] if again else []),
        f"One {unit} changes it by at most",
        "Noise scale",
        "ε",
        "Share",
    )
    whole = decimal(provenance.epsilon)
    asked = "one question" if count == 1 else f"{count:,} questions"
    only = (
        "Nothing else of the trips is in here"
        if provenance.private
        else "But the noise is from a seed, and hides nothing"
    )
    return (
        f"<p>The trips were asked {asked}. Each was paid for with a part of ε, and only then answered, with noise. All "
        f"numbers on this page come from these answers. The parts are exact fractions that add up to "
        f"ε&nbsp;=&nbsp;{whole}; a release where they do not is refused. {only}.</p>\n"
        + table(header, rows, foot=("All together", *([f"{count:,}"] if again else []), "", "", whole, percent(1)))
        + f'<p class="note">Of a vector, the change is the sum over its numbers. Noise on numbers is discrete Laplace: '
        "half of the time it is within 0.7 times its scale, in nine of ten cases within 2.3 times. Its scale is what "
        f"one {unit} can change, divided by ε; twice that for a choice, and more for a grouping.</p>\n"
    )


def _question(entry: LedgerEntry) -> tuple[str, int]:
    """What an entry asks, and how many of its units are one."""
    words, parts = QUESTIONS.get(entry.name.partition(",")[0], (entry.name, 1))
    return plain(words), parts
