"""Loan problems that read like sentences."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from loaning.problem import LoanProblem, OnLoan

NOBODY: dict[str, dict[str, int]] = {}


def on_loan(
    servers: Sequence[str],
    standing: Mapping[str, Mapping[str, int]] = NOBODY,
    *,
    elsewhere: Mapping[str, int] = {},
    min_workers: Mapping[str, int] = {},
    gpus: Mapping[str, int] = {},
    starts_over: Collection[str] = (),
) -> OnLoan:
    """`standing[job][server]` workers; a job without `min_workers` is inelastic.

    `gpus`: of one worker, 1 where none is given. `starts_over`: jobs without checkpoints.
    """
    jobs = tuple(standing)
    workers = np.array([[standing[j].get(s, 0) for s in servers] for j in jobs], dtype=np.int64)
    away = {j: elsewhere.get(j, 0) for j in jobs}
    whole = {j: sum(standing[j].values()) + away[j] for j in jobs}
    return OnLoan(
        servers=tuple(servers),
        jobs=jobs,
        workers=workers.reshape(len(jobs), len(servers)),
        elsewhere=np.array([away[j] for j in jobs], dtype=np.int64),
        min_workers=np.array([min_workers.get(j, whole[j]) for j in jobs], dtype=np.int64),
        gpus_per_worker=np.array([gpus.get(j, 1) for j in jobs], dtype=np.int64),
        checkpoints=np.array([j not in starts_over for j in jobs], dtype=np.bool_),
    )


def problem(
    rps: Sequence[float],
    *,
    serving: int,
    vacating: int = 0,
    lent: OnLoan | None = None,
    server_rps: float = 20.0,
    lead_s: float = 10.0,
    min_serving: int = 1,
) -> LoanProblem:
    """One sample a second, the last of them now."""
    at_s = np.arange(1.0, len(rps) + 1)
    return LoanProblem(
        now_s=float(len(rps)),
        demand_at_s=at_s,
        demand_rps=np.array(rps, dtype=np.float64),
        server_rps=server_rps,
        serving=serving,
        vacating=vacating,
        lead_s=lead_s,
        on_loan=lent or on_loan(()),
        min_serving=min_serving,
    )
