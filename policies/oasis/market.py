"""Prices of OASiS (002 §IV-B): what is taken of the servers, slot by slot, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from policies.oasis.model import PsJobs
from policies.problem import Floats, Ints, PolicyError

PsReading = Literal["work", "fewest"]
"""Slots of parameter servers in L2: W_i as (7) allows, or ceil(W_i b_i / B_i) as (6) demands.

With `fewest` an empty cluster may refuse a job, because each slot rounds its parameter servers up.
"""

_LEAST_PRICE = float(np.finfo(np.float64).tiny)  # a price of 0 could not rise by a power


@dataclass(frozen=True, slots=True)
class Estimate:
    """How U and L are estimated from the jobs that are known.

    `high_factor` and `low_factor` scale them (1.0: exact; a figure of §V-A varies both alike).
    One time-critical job, worthless at the end of the span, pushes the literal L towards 0, and
    with it all prices. Two remedies, both off (0) for the literal L:
    - `least_share`: a job's last utility counts as at least this share of its worth (gamma_1). A
      job that can still reach half that share is still admitted to an empty cluster, a hopeless
      one may be refused; if one can reach all of it Theorem 4 holds, with a smaller alpha: that
      job bounds the optimum.
    - `price_floor`: L >= U * price_floor. An empty cluster then refuses jobs that need more than
      about 1 / price_floor instance-slots, and Theorem 4 is void.
    """

    high_factor: float = 1.0
    low_factor: float = 1.0
    least_share: float = 1e-3
    price_floor: float = 0.0

    def __post_init__(self) -> None:
        for field in ("high_factor", "low_factor"):
            if not 0 < getattr(self, field) < np.inf:
                raise PolicyError(f"{field} is {getattr(self, field)}; use a positive number")
        for field in ("least_share", "price_floor"):
            if not 0 <= getattr(self, field) <= 1:
                raise PolicyError(f"{field} is {getattr(self, field)}; use 0 to 1")


@dataclass(frozen=True, slots=True)
class PriceRange:
    """(23)-(26) for one kind of server: what U and L are made of, from memory.

    Checked against the prose: U^r is the most utility per unit of resource r, L the least per
    unit and slot over all resources, scaled down by 4 eta, 1 / eta = min(1, the least need /
    everything that the span offers). (The 1 is ours: 1 / eta is only bounded from above, and a
    job that fits has no greater one.)
    """

    high: Floats  # [resources] U^r; 0 where nobody wants the resource
    low: float  # min_i f_i(T - a_i) / need_i; inf: no job needs anything
    need: float  # min_i need_i, in resource units times slots

    @classmethod
    def of(
        cls, fastest: Floats, latest: Floats, demand: Floats, instance_slots: Floats | Ints
    ) -> PriceRange:
        """The range over jobs that want `demand` [jobs, resources] for each instance.

        need_i = instance_slots_i sum_r demand_i^r. `fastest` and `latest` are the utilities of
        the earliest and the last completion.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = np.where(demand > 0, fastest[:, None] / demand, 0.0)
        need = instance_slots * demand.sum(axis=1)
        pays = need > 0
        unit = latest[pays] / need[pays]
        return cls(
            worth.max(axis=0, initial=0.0),
            low=float(unit.min(initial=np.inf)),
            need=float(need[pays].min(initial=np.inf)),
        )

    def widened(self, other: PriceRange) -> PriceRange:
        """The range over the jobs of both."""
        high = np.maximum(self.high, other.high)
        return PriceRange(high, min(self.low, other.low), min(self.need, other.need))

    def ends(self, capacity_slots: float, estimate: Estimate) -> tuple[Floats, Floats]:
        """[resources] L and U: the prices of an empty and of an exhausted server, as estimated."""
        high = np.maximum(self.high * estimate.high_factor, _LEAST_PRICE)
        per_eta = self.need / max(self.need, capacity_slots) if np.isfinite(self.need) else 1.0
        floor = np.maximum(high * estimate.price_floor, _LEAST_PRICE)
        return np.clip(self.low * estimate.low_factor * per_eta / 4, floor, high), high


@dataclass(frozen=True, slots=True)
class Market:
    """Servers of one kind over a span of slots, what of them is taken, and the prices.

    p = L (U / L)^(g / c), (22): U when exhausted. Resources that a server lacks cost L.
    """

    capacity: Floats  # [servers, resources] c
    low: Floats  # [resources] L
    high: Floats  # [resources] U
    used: Floats  # [slots, servers, resources] g
    price: Floats  # [slots, servers, resources] p

    @classmethod
    def of(cls, capacity: Floats, used: Floats, prices: PriceRange, estimate: Estimate) -> Market:
        """Prices for what is taken now."""
        low, high = prices.ends(len(used) * float(capacity.sum()), estimate)
        return cls(capacity, low, high, used, _price(capacity, used, low, high))

    def book(self, placed: Ints, demand: Floats) -> Market:
        """The market after `placed` [slots, servers] instances of `demand` [resources] each."""
        used, price = self.used.copy(), self.price.copy()
        slot, server = np.nonzero(placed)
        taken = used[slot, server] + placed[slot, server, None] * demand
        used[slot, server] = taken
        price[slot, server] = _price(self.capacity[server], taken, self.low, self.high)
        return Market(self.capacity, self.low, self.high, used, price)


def _price(capacity: Floats, used: Floats, low: Floats, high: Floats) -> Floats:
    share = np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)
    price: Floats = low ** (1 - share) * high**share  # U / L may overflow
    return price


@dataclass(frozen=True, slots=True)
class Cluster:
    """Workers and parameter servers stand on servers of their own (002 §III-A)."""

    workers: Market
    ps: Market


def empty_cluster(
    jobs: PsJobs,
    worker_capacity: Floats,
    ps_capacity: Floats,
    slots: int,
    estimate: Estimate | None = None,
    reading: PsReading = "work",
) -> Cluster:
    """Nothing taken, and prices for these jobs; capacities [servers, resources].

    U's argument counts from the arrival: a job of D slots that starts at once ends in slot
    a_i + D - 1. L's is the last slot of the span. Raises `PolicyError` naming server and field.
    """
    if slots < 1:
        raise PolicyError(f"slots is {slots}; use 1 or more")
    for field, amounts in (("worker_capacity", worker_capacity), ("ps_capacity", ps_capacity)):
        bad = ~(np.isfinite(amounts) & (amounts >= 0)).all(axis=1)
        if bad.any():
            raise PolicyError(f"server {int(bad.argmax())}: {field} must be finite and from 0")
    estimate = estimate or Estimate()
    rows = np.arange(len(jobs))
    fastest = jobs.utility(rows, jobs.fastest_slots - 1)
    latest = jobs.utility(rows, slots - 1 - jobs.arrival_slot)
    latest = np.maximum(latest, estimate.least_share * jobs.worth)
    ps_slots = jobs.work_slots if reading == "work" else jobs.fewest_ps_slots
    sides = (
        (worker_capacity, jobs.worker, jobs.work_slots),
        (ps_capacity, jobs.ps, ps_slots),
    )
    markets = []
    for capacity, demand, instance_slots in sides:
        prices = PriceRange.of(fastest, latest, demand, instance_slots)
        used = np.zeros((slots, *capacity.shape))
        markets.append(Market.of(capacity, used, prices, estimate))
    return Cluster(*markets)


def alpha(cluster: Cluster) -> float:
    """alpha = max_r(1, ln U / L): OASiS is 2 alpha-competitive (Theorem 4).

    That is where each job takes a small part of a server, as the proof assumes. Where it may take
    a share of up to d in one slot, the ratio is under 2 (U / L)^d max(1, ((U / L)^d - 1) / d): a
    booking raises the price of what it takes at most so fast, and a job that finds no room sees
    prices that may fall short of U by (U / L)^d. (The proof takes no room for U.)
    """
    ratios = [np.log(m.high) - np.log(m.low) for m in (cluster.workers, cluster.ps)]
    return max(1.0, float(np.max(ratios)))
