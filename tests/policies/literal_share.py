"""001 Algorithm 1 as printed, in plain Python: what the compiled form is compared with."""


def literal_shares(length_s, free_gpus, order, claims):
    """The plans of `order` (job -> index of its size in each piece), and who failed, or None."""
    free = list(free_gpus)
    plans: dict[int, list[int]] = {}
    for job in order:
        plan = progressive_filling(length_s, free, claims, job)
        if plan is None:
            return plans, job
        gpus = claims.sizes.gpus_of(job).tolist()
        for t, size in enumerate(plan):
            free[t] -= gpus[size]
        plans[job] = plan
    return plans, None


def progressive_filling(length_s, free, claims, job):
    """Lines 11-22, the test of line 17 inside the loop over t."""
    gpus, rate = claims.sizes.gpus_of(job).tolist(), claims.sizes.rate_of(job).tolist()
    pieces, needed = int(claims.pieces[job]), float(claims.needed[job])
    seconds = [*map(float, length_s[:pieces])]
    seconds[-1:] = [float(claims.last_s[job])] * bool(pieces)
    plan, work = [0] * pieces, 0.0
    for j in range(len(gpus)):
        for t in reversed(range(pieces)):
            if work >= needed - 1e-9:
                return plan
            size = max(s for s in range(j + 1) if gpus[s] <= free[t] or s == 0)
            work += (rate[size] - rate[plan[t]]) * seconds[t]
            plan[t] = size
    return plan if work >= needed - 1e-9 else None
