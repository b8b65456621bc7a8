"""Hypothesis strategies for whole problems: clusters with jobs that wait, and that stand."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.builders import Server, job, problem, server_ids

servers = st.lists(st.builds(Server, st.integers(0, 8), st.booleans()), max_size=5)


@st.composite
def problems(draw, lost_servers=False):
    """A problem whose running jobs fit their servers, unless some were lost."""
    cluster = draw(servers)
    free = {name: server.gpus for name, server in zip(server_ids(cluster), cluster, strict=True)}
    jobs = [_draw_job(draw, f"job{number}", free) for number in range(draw(st.integers(0, 8)))]
    if lost_servers:
        left = [server if draw(st.booleans()) else Server(0, server.on_loan) for server in cluster]
        cluster = left
    return problem(jobs, cluster, resize_s=draw(st.sampled_from([0.0, 5.0, 100.0])))


def _draw_job(draw, name, free):
    """A job that stands where `free` has room for it, or waits."""
    low = draw(st.integers(1, 4))
    high = low + draw(st.integers(0, 6))
    gpus = draw(st.integers(1, 4))
    standing: dict[str, int] = {}
    if draw(st.booleans()):
        wanted = draw(st.integers(low, high))
        for server, room in free.items():
            standing[server] = min(wanted - sum(standing.values()), room // gpus)
        if sum(standing.values()) < low:
            standing = {}
    for server, workers in standing.items():
        free[server] -= workers * gpus
    return job(
        name,
        (low, high),
        epoch_s=draw(st.floats(0.1, 1e4)),
        epochs=draw(st.integers(0, 100)),
        gpus=gpus,
        on={server: workers for server, workers in standing.items() if workers},
    )
