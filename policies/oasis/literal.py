"""Algorithm 2 as printed (002 §IV-C), in plain Python: the oracle of tests, a naive baseline.

Work is counted in worker-slots here too: in chunks, as the paper prints it, one job would take
billions of steps.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from policies.oasis.market import Cluster, Market
from policies.oasis.model import NEVER, ROUNDING, Request
from policies.problem import Floats

_Offer: TypeAlias = tuple[float, float]  # price of an instance, room for instances


def best_payoff(request: Request, cluster: Cluster) -> tuple[float, int]:
    """The greatest payoff and the earliest completion slot that has it; (-inf, -1): none.

    Lines 3-10: each end time in turn. F is remembered from one to the next, as the text says.
    """
    search = _Search(request, cluster)
    best, end = -math.inf, -1
    for t, utility in enumerate(request.utility.tolist()):
        payoff = utility - search.dp_cost(t, request.work)
        if payoff > best + ROUNDING * utility:
            best, end = payoff, request.arrival_slot + t
    return best, end


class _Search:
    """The functions DP_COST and COST_t with what they remember."""

    def __init__(self, request: Request, cluster: Cluster) -> None:
        self._request, self._cluster = request, cluster
        self._least: dict[tuple[int, int], float] = {}
        self._costs: dict[tuple[int, int], float] = {}
        self._offers: dict[int, tuple[list[_Offer], list[_Offer]]] = {}

    def dp_cost(self, t: int, work: int) -> float:
        """Lines 12-22: the least cost of `work` units in the slots up to t."""
        if work <= 0:
            return 0.0
        if t < 0:
            return math.inf
        if (t, work) not in self._least:
            progress = self._request.progress[t].tolist()
            self._least[t, work] = min(
                self.cost(t, w) + self.dp_cost(t - 1, work - units)
                for w, units in enumerate(progress)
            )
        return self._least[t, work]

    def cost(self, t: int, workers: int) -> float:
        """Lines 23-46, COST_t: workers and parameter servers on the cheapest servers."""
        if (t, workers) not in self._costs:
            ps = int(self._request.ps_of[workers])
            self._costs[t, workers] = math.inf
            if ps != NEVER:
                workers_offered, ps_offered = self._sorted(t)
                paid = _fill(workers_offered, workers) + _fill(ps_offered, ps)
                self._costs[t, workers] = paid
        return self._costs[t, workers]

    def _sorted(self, t: int) -> tuple[list[_Offer], list[_Offer]]:
        """Servers of both kinds, cheapest first: once for each slot, as Appendix D allows."""
        if t not in self._offers:
            request, slot = self._request, self._request.arrival_slot + t
            self._offers[t] = (
                _offered(self._cluster.workers, slot, request.worker),
                _offered(self._cluster.ps, slot, request.ps),
            )
        return self._offers[t]


def _offered(market: Market, slot: int, demand: Floats) -> list[_Offer]:
    """Line 25: price of an instance and room for instances of each server, cheapest first."""
    wanted = [(r, amount) for r, amount in enumerate(demand.tolist()) if amount > 0]
    price, free = market.price[slot].tolist(), (market.capacity - market.used[slot]).tolist()
    offers = []
    for server in range(len(price)):
        unit = sum(price[server][r] * amount for r, amount in wanted)
        room = min(
            (math.floor(free[server][r] / amount + ROUNDING) for r, amount in wanted),
            default=math.inf,
        )
        offers.append((unit, room))
    return sorted(offers)


def _fill(offers: list[_Offer], count: int) -> float:
    """The cost of `count` instances on the cheapest servers that have room; inf: there is none."""
    paid, left = 0.0, float(count)
    for unit, room in offers:
        taken = min(room, left)
        paid += taken * unit
        left -= taken
    return paid if left == 0 else math.inf
