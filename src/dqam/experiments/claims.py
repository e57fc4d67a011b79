"""The paper's claims: what it reports, what these runs measure, and why the two differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dqam.experiments.figures import timed_lines
from dqam.experiments.plan import ExperimentPlan, Spot
from dqam.experiments.printed import PRINTED
from dqam.experiments.protocol import DISTINCT, EXACT, PAPER, START, publishable
from dqam.experiments.results import Results

MISSING = "Not measured in this run."
# eps -> the paper's standard deviations on 1,000 trips of PORTO-TAXI
PAPER_DEVIATIONS = {
    "laplace": {0.01: 500.86, 0.05: 500.15, 0.1: 429.71, 0.5: 285.44},
    "mwem": {0.01: 5.64, 0.05: 4.48, 0.1: 3.37, 0.5: 3.10},
    "dawa": {0.01: 3.65, 0.05: 2.00, 0.1: 1.24, 0.5: 0.86},
    "prish": {0.01: 2.50, 0.05: 2.81, 0.1: 1.67, 0.5: 0.39},
    "dqam": {0.01: 1.73, 0.05: 1.54, 0.1: 0.53, 0.5: 0.27},
}
EVEN = 1e-6  # faces are equal up to rounding if their spread is at most this fraction of their mean


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, what the paper reports, what was measured here, and why the two differ."""

    about: str
    reported: str
    measured: str
    why: str


def rounded(value: float) -> str:
    """A number with three significant digits.

    >>> rounded(1234.5), rounded(1.901), rounded(0.00123), rounded(1e-12)
    ('1,234', '1.90', '0.00123', '0')
    """
    if abs(value) < 1e-9:  # rounding
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def claims(plan: ExperimentPlan, results: Results) -> list[Claim]:
    """All claims, with numbers from `results`."""
    rows: list[tuple[str, str, Callable[[ExperimentPlan, Results], str], str]] = [
        (
            "DQAM mostly has the lowest error, especially for small ε",
            "Lowest error in most panels of the figure by data set and size.",
            _lowest,
            "The paper compares answers to different questions: LM, MWEM and DAWA are compared with sums of faces "
            "(visits to cells), PriSH and DQAM with faces minus edges. Here all mechanisms are private and answer the "
            "same question, distinct trips. If the number of trips times ε is small, the private forms of the paper's "
            "mechanisms learn only this number and spread trips evenly: DQAM has no advantage at small ε.",
        ),
        (
            "PriSH / DQAM = 7.4 at 1,000 trips, 8,000 queries, ε = 0.01",
            "14.0654 / 1.901 = 7.4, the highest gain reported.",
            _factor,
            "As printed, DQAM does not split its tree there and returns the uniform histogram (see above), so the "
            "ratio compares PriSH with a mechanism that learns nothing. T is chosen by the error, which is not "
            "private.",
        ),
        (
            "An average error of 1.9 at 1,000 trips and ε = 0.01",
            "1.901 for DQAM, 14.07 for PriSH.",
            _small_error,
            "No ε-private mechanism can have this error as an absolute count: at ε = 0.01 the probabilities of an "
            "answer on two data sets that differ in 100 trips are within a factor of e, so errors are of the order of "
            "100 trips where answers are that large.",
        ),
        (
            "LM, MWEM and DAWA are worse than DQAM by a factor of at least 60 (same setting)",
            "A factor of at least 60.",
            _faces_factor,
            "Sums of faces count visits, and a trip makes many, so the two kinds of errors have different units. The "
            "scale of LM's noise is proportional to the number of queries.",
        ),
        (
            "DQAM identifies uniform regions and uses their densities",
            "A partition by noisy costs with δ = 4/ε₁², and stable results.",
            _never_splits,
            "δ is a variance and is compared with a cost. At ε ≤ 0.1 it is at least 6,400, and costs of 1,000 trips "
            "are at most 2,000: the tree keeps one region, every update rescales everything by the same factor, and "
            "the renormalisation undoes it. Noise of scale 1/ε₂ on a density between 0 and 1 would hide it anyway.",
        ),
        (
            "DQAM has the smallest standard deviation",
            "1.73, 1.54, 0.53, 0.27 for ε = 0.01, 0.05, 0.1, 0.5; LM 501 to 285.",
            _deviations,
            "A uniform histogram with the exact n has no deviation at all. Private mechanisms measure n, and whatever "
            "else they need, with noise; the more a mechanism learns, the more it deviates. A small deviation is "
            "therefore no merit.",
        ),
        (
            "Answers of a histogram have sensitivity 1",
            "Assumed: a measured query has noise of scale T/ε₄.",
            _sensitivity,
            "Faces minus edges counts a trip again each time it returns to the rectangle, so one trip can change an "
            "answer by more than 1. Counts of distinct trips have sensitivity 1.",
        ),
        (
            "Larger data sets have higher accuracy",
            "Lower error for larger data sets.",
            _by_size,
            "The absolute error grows with the data and the relative error falls; n · ε decides.",
        ),
        (
            "MWEM and DAWA do well on uniform data, worse on skewed data",
            "Considerably less accurate on PORTO-TAXI.",
            _by_skew,
            "Errors are divided by the mean answer, because it differs between data sets. The uniform mechanism, which "
            "learns nothing about where trips are, shows how much of the difference is due to the data.",
        ),
        (
            "The error hardly depends on the number of queries",
            "Almost stable, slightly higher for larger sets.",
            _by_queries,
            "A private mechanism counts few queries of the set, or none, so that the error grows at most with the "
            "logarithm of their number.",
        ),
        (
            "Higher resolutions cause higher errors",
            "Higher errors, steeply for LM, MWEM and DAWA.",
            _by_resolution,
            "Where only faces are counted, a walk has more visits if cells are smaller, so the unit of the error "
            "grows; LM's noise depends only on the number of queries. Distinct trips are the same question at any "
            "resolution.",
        ),
        (
            "DQAM captures the distribution perfectly",
            "The lowest divergence of DQAM, PriSH and MWEM on both data sets.",
            _divergence,
            "If nothing is learned, the divergence is that of the uniform histogram. The figure depends on how empty "
            "cells are treated, which the paper does not say. The nearly uniform data set is uniform over streets, "
            "not over cells: most cells have no street.",
        ),
        (
            "Running times",
            "About 10 s and 8 s on the large sets, 60 min and 25 min on the small ones.",
            _times,
            "The paper solves a general linear program. It can be solved height by height: the faces to raise at each "
            "are a 2-core, which is found by peeling, and graded densities leave hardly anything to repair. If n · ε "
            "is small, no rounds are run, or trips are spread evenly at once; the benchmark dqam_run measures runs "
            "with rounds. The machines differ: compare orders of magnitude only.",
        ),
        (
            "The result is ε-differentially private",
            "Proved for ε₁ + ε₂ + ε₃ + ε₄ = ε.",
            lambda plan, results: "Not measured here; see the audit (dqam audit).",
            "Every level of the tree spends budget, but only one is charged; n and the mean length are taken as "
            "public; T is chosen from {10, ..., 20} by the error. The “-printed” forms do the same, for comparison "
            "only; all other mechanisms charge for everything that they use.",
        ),
    ]
    return [Claim(about, reported, measure(plan, results), why) for about, reported, measure, why in rows]


def uneven(plan: ExperimentPlan, results: Results) -> dict[float, float]:
    """For each epsilon the largest (largest - smallest face) / mean face of dqam-printed at home, over all runs."""
    found = {}
    for epsilon in plan.settings.epsilons:
        runs = results.runs(PAPER, plan.home, "dqam-printed", epsilon)
        spreads = [row.measured.evenness for rows in runs.values() for row in rows]
        if spreads:
            found[epsilon] = max(spreads)
    return found


def _ask_of(plan: ExperimentPlan) -> Spot:
    """The setting in which the paper reports its factor: 8,000 queries if this run has them, or the default."""
    return replace(plan.home, queries=8_000) if 8_000 in plan.settings.query_counts else plan.home


def _errors(results: Results, protocol: str, spot: Spot, epsilon: float, names: list[str]) -> dict[str, float]:
    points = {name: results.point(protocol, spot, name, epsilon) for name in names}
    return {name: point.mean for name, point in points.items() if point is not None}


def _listed(values: dict[str, float], form: Callable[[float], str] = rounded) -> str:
    return ", ".join(f"{name} {form(value)}" for name, value in values.items())


def _lowest(plan: ExperimentPlan, results: Results) -> str:
    alone: dict[str, int] = {}
    settings = tied = 0
    for spot in plan.spots("size"):
        for epsilon in plan.settings.epsilons:
            errors = _errors(results, DISTINCT, spot, epsilon, list(publishable()))
            if not errors:
                continue
            settings += 1
            best = [name for name, error in errors.items() if error <= 1.01 * min(errors.values())]
            if len(best) == len(errors):
                tied += 1
            elif len(best) == 1:
                alone[best[0]] = alone.get(best[0], 0) + 1
    if not settings:
        return MISSING
    ranked = sorted(alone.items(), key=lambda item: -item[1])
    epsilon = plan.settings.epsilons[0]
    there = _errors(results, DISTINCT, plan.home, epsilon, list(publishable()))
    return (
        f"Of {settings} settings (data, size, ε), on distinct trips: all within 1 % of each other in {tied}; lowest by "
        f"more than 1 %: {', '.join(f'{name} in {count}' for name, count in ranked) or 'none'}. "
        f"At {plan.home.trips:,} trips and ε = {epsilon:g}: {_listed(there)}."
    )


def _factor(plan: ExperimentPlan, results: Results) -> str:
    spot, epsilon = _ask_of(plan), plan.settings.epsilons[0]
    printed = _errors(results, PAPER, spot, epsilon, ["prish-printed", "dqam-printed"])
    sound = _errors(results, DISTINCT, spot, epsilon, ["prish", "dqam"])
    told = [
        f"{kind} {rounded(errors[prish])} / {rounded(errors[dqam])} = {rounded(errors[prish] / errors[dqam])}"
        for kind, errors, prish, dqam in (
            ("as printed", printed, "prish-printed", "dqam-printed"),
            ("private, on distinct trips,", sound, "prish", "dqam"),
        )
        if len(errors) == 2 and errors[dqam] > 0
    ]
    return f"{_at(spot, epsilon)} {'; '.join(told)}." if told else MISSING


def _at(spot: Spot, epsilon: float) -> str:
    return f"At {spot.trips:,} trips, {spot.queries:,} queries, ε = {epsilon:g}:"


def _small_error(plan: ExperimentPlan, results: Results) -> str:
    spot, epsilon = _ask_of(plan), plan.settings.epsilons[0]
    printed = _errors(results, PAPER, spot, epsilon, ["dqam-printed", "prish-printed"])
    sound = _errors(results, DISTINCT, spot, epsilon, ["uniform", "dqam", "prish"])
    mean = results.point(DISTINCT, spot, EXACT, measure="mean_answer")
    if mean is None or not (printed or sound):
        return MISSING
    both = "; ".join(_listed(values) for values in (printed, sound) if values)
    return f"{_at(spot, epsilon)} {both}; the mean distinct answer is {rounded(mean.mean)}."


def _faces_factor(plan: ExperimentPlan, results: Results) -> str:
    spot, epsilon = _ask_of(plan), plan.settings.epsilons[0]
    errors = _errors(results, PAPER, spot, epsilon, list(PRINTED))
    own = errors.get("dqam-printed")
    others = {name: errors[name] / own for name in errors if PRINTED[name].faces_only} if own else {}
    same = _errors(results, DISTINCT, spot, epsilon, ["laplace", "mwem", "dawa", "dqam"])
    reference = same.pop("dqam", None)
    if not others:
        return MISSING
    told = f"{_at(spot, epsilon)} as printed, divided by dqam-printed: {_listed(others)}."
    if reference:
        ratios = _listed({name: error / reference for name, error in same.items()})
        told += f" Private mechanisms on distinct trips, divided by dqam: {ratios}."
    return told


def _never_splits(plan: ExperimentPlan, results: Results) -> str:
    spreads = uneven(plan, results)
    if not spreads:
        return MISSING
    even = [epsilon for epsilon, spread in spreads.items() if spread <= EVEN]
    told = ", ".join(f"{rounded(spread)} at ε = {epsilon:g}" for epsilon, spread in spreads.items())
    verdict = f"all faces equal for ε in {{{', '.join(f'{e:g}' for e in even)}}}" if even else "no output is uniform"
    start, own = (
        results.point(PAPER, plan.home, START),
        results.point(PAPER, plan.home, "dqam-printed", plan.settings.epsilons[0]),
    )
    same = ""
    if start is not None and own is not None:
        same = f" Its error is {rounded(own.mean)}, the uniform start's is {rounded(start.mean)}."
    return f"dqam-printed, {plan.home.trips:,} trips: {verdict} (largest relative spread of faces: {told}).{same}"


def _deviations(plan: ExperimentPlan, results: Results) -> str:
    told = []
    for epsilon in (plan.settings.epsilons[0], _telling(plan)):
        for protocol, suffix in ((PAPER, "-printed"), (DISTINCT, "")):
            points = {
                name + suffix: results.point(protocol, plan.home, name + suffix, epsilon) for name in PAPER_DEVIATIONS
            }
            found = {name: point.deviation for name, point in points.items() if point is not None}
            if found:
                told.append(f"ε = {epsilon:g}: {_listed(found)}")
    return f"{'; '.join(told)} (see the table)." if told else MISSING


def _telling(plan: ExperimentPlan) -> float:
    """An epsilon at which mechanisms can learn something from the data."""
    return 0.5 if 0.5 in plan.settings.epsilons else plan.settings.epsilons[-1]


def _sensitivity(plan: ExperimentPlan, results: Results) -> str:
    error = results.point(DISTINCT, plan.home, EXACT)
    mean = results.point(DISTINCT, plan.home, EXACT, measure="mean_answer")
    if error is None or mean is None:
        return MISSING
    return (
        f"The exact histogram, without any noise, has an average error of {rounded(error.mean)} because trips return; "
        f"the mean number of distinct trips is {rounded(mean.mean)} ({plan.home.trips:,} trips)."
    )


def _relative(results: Results, spot: Spot, name: str, epsilon: float) -> float | None:
    error = results.point(DISTINCT, spot, name, epsilon)
    mean = results.point(DISTINCT, spot, EXACT, measure="mean_answer")
    return error.mean / mean.mean if error is not None and mean is not None and mean.mean > 0 else None


def _percent(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 1 else f"{100 * value:,.0f} %"


def _leading() -> str:
    """The mechanism whose trends are reported."""
    return "dqam" if "dqam" in publishable() else publishable()[-1]


def _trend(plan: ExperimentPlan, results: Results, spots: list[tuple[str, Spot]]) -> str:
    name, epsilon = _leading(), _telling(plan)
    told = []
    for what, spot in spots:
        point, share = results.point(DISTINCT, spot, name, epsilon), _relative(results, spot, name, epsilon)
        if point is not None and share is not None:
            told.append(f"{rounded(point.mean)} ({_percent(share)}) at {what}")
    return (
        f"{name}, ε = {epsilon:g}, error (as a share of the mean answer): {', '.join(told)}."
        if len(told) > 1
        else MISSING
    )


def _by_size(plan: ExperimentPlan, results: Results) -> str:
    spots = [(f"{s.trips:,} trips", s) for s in plan.spots("size") if s.data == plan.skewed]
    return _trend(plan, results, spots)


def _by_queries(plan: ExperimentPlan, results: Results) -> str:
    return _trend(plan, results, [(f"{s.queries:,}", s) for s in plan.spots("queries")])


def _by_resolution(plan: ExperimentPlan, results: Results) -> str:
    distinct = _trend(plan, results, [(f"resolution {s.resolution}", s) for s in plan.spots("resolution")])
    first, last = plan.spots("resolution")[0], plan.spots("resolution")[-1]
    epsilon = _telling(plan)
    low, high = (_errors(results, PAPER, spot, epsilon, list(PRINTED)) for spot in (first, last))
    grown = {name: high[name] / low[name] for name in low if name in high and low[name] > 0}
    if distinct == MISSING or not grown:
        return distinct
    return f"{distinct} As printed, error at {last.resolution} divided by that at {first.resolution}: {_listed(grown)}."


def _by_skew(plan: ExperimentPlan, results: Results) -> str:
    epsilon = _telling(plan)
    told = []
    for name in ("mwem", "dawa", "dqam", "uniform"):
        shares = [_relative(results, replace(plan.home, data=data), name, epsilon) for data in (plan.skewed, plan.even)]
        if shares[0] is not None and shares[1] is not None:
            told.append(f"{name} {_percent(shares[0])} and {_percent(shares[1])}")
    where = f"{plan.home.trips:,} trips, ε = {epsilon:g}"
    return (
        f"{where}, error as a share of the mean answer, skewed and nearly uniform: {'; '.join(told)}."
        if told
        else MISSING
    )


def _divergence(plan: ExperimentPlan, results: Results) -> str:
    told = []
    for epsilon in (plan.settings.epsilons[0], plan.settings.epsilons[-1]):
        names = [(DISTINCT, n) for n in plan.mechanisms("kld", DISTINCT)]
        names += [(PAPER, n) for n in plan.mechanisms("kld", PAPER)]
        points = {name: results.point(protocol, plan.home, name, epsilon, "kld") for protocol, name in names}
        found = {name: point.mean for name, point in points.items() if point is not None}
        if found:
            told.append(f"ε = {epsilon:g}: {_listed(found)}")
    even = results.point(DISTINCT, replace(plan.home, data=plan.even), "uniform", plan.settings.epsilons[-1], "kld")
    also = f" Uniform on the nearly uniform data set: {rounded(even.mean)}." if even is not None else ""
    return f"{plan.home.trips:,} trips, {'; '.join(told)}.{also}" if told else MISSING


def _times(plan: ExperimentPlan, results: Results) -> str:
    told = []
    names = plan.mechanisms("time", DISTINCT) + plan.mechanisms("time", PAPER)
    for protocol, name in timed_lines(names):
        for spot in plan.spots("time"):
            point = results.point(protocol, spot, name, plan.settings.timed_epsilon, measure="seconds", alone=True)
            if point is not None and spot.trips in (plan.settings.sizes[0], plan.settings.sizes[-1]):
                told.append(f"{name} {rounded(point.mean)} s ({spot.data}, {spot.trips:,})")
    return f"Given the exact counts, on this machine: {', '.join(told)}." if told else MISSING
