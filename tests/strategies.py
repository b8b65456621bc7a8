"""Hypothesis strategies for whole problems: clusters with jobs that wait, and that stand."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tests.builders import Server, job, problem, server_ids

servers = st.lists(st.builds(Server, st.integers(0, 8), st.booleans()), max_size=5)

typed_servers = st.lists(
    st.builds(lambda gpus, kind: Server(gpus, *kind), st.integers(0, 8), st.sampled_from(
        [(False, "V100", 1.0), (True, "T4", 0.25), (True, "V100", 1.0), (False, "P100", 0.5)]
    )),
    max_size=5,
)  # fmt: skip


@st.composite
def problems(draw, lost_servers=False, gpu_types=False):
    """A problem whose running jobs fit their servers, unless some were lost.

    With `gpu_types` servers have GPUs of up to three types, and jobs ask for one, mix them, or
    stand on any one of them.
    """
    cluster = draw(typed_servers if gpu_types else servers)
    free = {name: server.gpus for name, server in zip(server_ids(cluster), cluster, strict=True)}
    jobs = []
    for number in range(draw(st.integers(0, 8))):
        wish = _draw_wish(draw) if gpu_types else {}
        on = _where_it_may_stand(draw, cluster, wish) if gpu_types else set(free)
        room = {name: gpus for name, gpus in free.items() if name in on}
        jobs.append(_draw_job(draw, f"job{number}", room, wish))
        free |= room
    if lost_servers:
        cluster = [s if draw(st.booleans()) else replace(s, gpus=0) for s in cluster]
    return problem(jobs, cluster, resize_s=draw(st.sampled_from([0.0, 5.0, 100.0])))


def _draw_wish(draw):
    """What a job says of its GPUs."""
    gpu_type = draw(st.sampled_from(["", "", "V100", "T4"]))
    mixes = not gpu_type and draw(st.booleans())
    return {"gpu_type": gpu_type, "mixes_gpus": mixes, "checkpoints": draw(st.booleans())}


def _where_it_may_stand(draw, cluster, wish):
    """Servers of the one type that a job stands on, or all of them where it mixes."""
    types = sorted({server.gpu_type for server in cluster}) or [""]
    gpu_type = wish["gpu_type"] or draw(st.sampled_from(types))
    named = zip(server_ids(cluster), cluster, strict=True)
    return {name for name, s in named if wish["mixes_gpus"] or s.gpu_type == gpu_type}


def _draw_job(draw, name, free, wish):
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
        **wish,
    )
