"""Rows and claims over schemes: means over seeds, and ratios seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from raysched.simulator.reproductions.aryl.runs import Scheme
from raysched.simulator.reproductions.experiment import Claim, Results, Row


def at(scale: float, scheme: Scheme) -> Scheme:
    """The runs of a scheme at one of several scales."""
    return {**scheme, "scale": scale}


def all_at(scale: float, schemes: Mapping[str, Scheme]) -> dict[str, Scheme]:
    """The runs of schemes at one of several scales."""
    return {name: at(scale, scheme) for name, scheme in schemes.items()}


def average(results: Results, metric: str, scheme: Scheme) -> float:
    """Over seeds."""
    return mean(results.values(metric, **scheme))


def ratio(results: Results, metric: str, over: Scheme, under: Scheme) -> tuple[float, ...]:
    """One scheme's over another's, seed by seed."""
    pairs = zip(results.values(metric, **over), results.values(metric, **under), strict=True)
    return tuple(a / b for a, b in pairs)


def row(
    results: Results, what: str, paper: str, metric: str, scheme: Scheme, unit: str = "s"
) -> Row:
    """A number of each seed; shares are told in percent."""
    values = results.values(metric, **scheme)
    if unit == "%":
        values = tuple(100 * value for value in values)
    return Row(what, paper, values, unit)


_COSTS = (
    ("queuing, mean", "queuing_s_mean", "s"),
    ("JCT, mean", "jct_s_mean", "s"),
    ("preemptions per submission", "preemption_ratio", "%"),
)


def each_row(
    results: Results, paper: Mapping[str, tuple[str, str, str]], schemes: Mapping[str, Scheme]
) -> tuple[Row, ...]:
    """Mean queuing, mean JCT and preemptions of each scheme, beside what is printed of them."""
    return tuple(
        row(results, f"{name}: {what}", f"{printed} {unit}", metric, schemes[name], unit)
        for name, of_scheme in paper.items()
        for printed, (what, metric, unit) in zip(of_scheme, _COSTS, strict=True)
    )


def falls(results: Results, metric: str, schemes: Mapping[str, Scheme], what: str) -> Claim:
    """That a mean falls from each scheme to the next."""
    means = [average(results, metric, scheme) for scheme in schemes.values()]
    names = ", ".join(schemes)
    return Claim(f"{what} falls in this order: {names}", means == sorted(means, reverse=True))


def least(
    results: Results, metric: str, best: str, schemes: Mapping[str, Scheme], where: str
) -> list[Claim]:
    """That one scheme has less than each of the others in the mean."""
    own = average(results, metric, schemes[best])
    return [
        Claim(f"{where}: {best} {_LESS[metric]} than {name}", own < average(results, metric, each))
        for name, each in schemes.items()
        if name != best
    ]


_LESS = {
    "queuing_s_mean": "queues less",
    "jct_s_mean": "has a shorter JCT",
    "preemption_ratio": "preempts less",
    "collateral": "does less collateral damage",
}
