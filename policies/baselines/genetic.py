"""A genetic search over numbers of workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import njit, types

from policies.problem import Floats, Ints

Fitness: TypeAlias = Callable[[Ints], Floats]
"""Of candidates [candidates, jobs], workers: larger is better."""

MUTATION = 0.1
"""How likely each kind of mutation is for a job of a candidate of few jobs; of many, one or so
of its jobs changes in each way, since a candidate that changes all over is rarely better."""

_INTS = types.Array(types.int64, 1, "C", readonly=True)
_TABLE = types.int64[:, ::1]


@dataclass(frozen=True, slots=True)
class Genome:
    """What a candidate may be: for each job 0 workers, or from `least` to `most`, and no fewer than
    it `keeps`."""

    present: Ints  # [jobs] workers now
    keeps: Ints  # [jobs] `least` for those that may not be paused; else 0
    least: Ints  # [jobs]
    most: Ints  # [jobs]
    gpus: Ints  # [jobs] of one worker
    turn: Ints  # [jobs] rows in the order in which they get what they want where GPUs are short
    capacity_gpus: int

    def repaired(self, candidates: Ints) -> Ints:
        """[candidates, jobs] Cut to the capacity, job by job in turn."""
        repaired: Ints = _repair(
            candidates,
            self.turn,
            self.keeps,
            self.least,
            self.most,
            self.gpus,
            self.capacity_gpus,
        )
        return repaired


def search(genome: Genome, fitness: Fitness, generations: int, population: int, seed: int) -> Ints:
    """[jobs] Workers of the fittest candidate that was met.

    It is at least as fit as the present allocation where that is still possible.
    """
    rng = np.random.default_rng(seed)
    shape = (population, len(genome.least))
    first = np.where(np.arange(population)[:, None] % 2, genome.least, genome.present)
    parents = genome.repaired(np.concatenate((first[:2], _mutated(genome, first[2:], rng))))
    fit = fitness(parents)
    for _ in range(generations):
        # Of two candidates drawn the fitter one is a parent.
        drawn = rng.integers(population, size=(2, 2, population))
        mother, father = np.where(fit[drawn[0]] >= fit[drawn[1]], drawn[0], drawn[1])
        point = rng.integers(shape[1] + 1, size=population)
        crossed = np.where(np.arange(shape[1]) < point[:, None], parents[mother], parents[father])
        children = genome.repaired(_mutated(genome, crossed, rng))
        everyone = np.concatenate((parents, children))
        all_fit = np.concatenate((fit, fitness(children)))
        survivors = np.argsort(-all_fit, kind="stable")[:population]
        parents, fit = everyone[survivors], all_fit[survivors]
    best: Ints = parents[int(np.argmax(fit))]
    return best


def _mutated(genome: Genome, candidates: Ints, rng: np.random.Generator) -> Ints:
    """Some jobs as at present, some paused, some of any size, some of one worker more."""
    draw = rng.random(candidates.shape) / min(MUTATION, 1 / candidates.shape[1])
    anything = rng.integers(genome.least, genome.most + 1, size=candidates.shape)
    kinds = [draw < 1, draw < 2, draw < 3, draw < 4]
    present = np.broadcast_to(genome.present, candidates.shape)
    mutated: Ints = np.select(
        kinds, [present, np.zeros_like(candidates), anything, candidates + 1], candidates
    )
    return mutated


@njit(
    types.int64[:, ::1](_TABLE, _INTS, _INTS, _INTS, _INTS, _INTS, types.int64),
    cache=True,
)
def _repair(candidates, turn, keeps, least, most, gpus, capacity):  # type: ignore[no-untyped-def]
    """See `Genome.repaired`."""
    repaired = np.zeros_like(candidates)
    spare = capacity - (keeps * gpus).sum()
    for c in range(len(candidates)):
        left = spare
        for j in turn:
            wanted = max(candidates[c, j], keeps[j])
            if 0 < wanted < least[j]:
                wanted = least[j]
            wanted = min(wanted, most[j], keeps[j] + left // gpus[j])
            if wanted >= least[j]:
                repaired[c, j] = wanted
                left -= (wanted - keeps[j]) * gpus[j]
    return repaired
