"""Fig. 6 and 8 to 11: on what they were measured, what they show, and what a run takes here."""

from __future__ import annotations

from raysched.simulator.reproductions.elasticflow.bars import Bar, Bars
from raysched.simulator.reproductions.elasticflow.measure import PHILLY, Setup

POLLUX = {"interval_s": 960.0, "generations": 25, "population": 50}
"""A coarser search than Pollux's, which is asked every minute: that takes hours."""

FIG6A = Bars(
    "25 jobs, 4 x 8 GPUs",
    Setup("elasticflow/generated/first25of195.csv", 4),
    {
        "edf": Bar(0.08, 0.5),
        "gandiva": Bar(0.24, 0.5),
        "tiresias": Bar(0.32, 0.5),
        "themis": Bar(0.28, 0.5),
        "chronus": Bar(0.4, 1.0),
        "pollux": Bar(0.32, 6.0),
        "elasticflow": Bar(0.64, 0.5),
    },
    {"pollux": {"interval_s": 240.0}},
)

FIG6B = Bars(
    "195 jobs, 16 x 8 GPUs",
    Setup("elasticflow/traces/195job.csv", 16),
    {
        "edf": Bar(0.0872, 0.8),
        "gandiva": Bar(0.2103, 7.5),
        "tiresias": Bar(0.4564, 1.0),
        "themis": Bar(0.3897, 1.5),
        "chronus": Bar(0.4103, 19.0),
        "elasticflow": Bar(0.6667, 2.0),
    },
)

FIG8A = Bars(
    "195 jobs, 16 x 4 T4",
    Setup("elasticflow/traces/elasticVpollux_e.csv", 16, 4, slot_s=60.0, gpu_type="T4"),
    {
        "edf": Bar(0.118, 0.6),
        "gandiva": Bar(0.09, 45.0),
        "tiresias": Bar(0.287, 1.5),
        "themis": Bar(0.312, 30.0),
        "chronus": Bar(0.262, 25.0),
        "pollux": Bar(0.523, 7.0),
        "elasticflow": Bar(0.728, 3.0),
    },
    {"pollux": POLLUX, "chronus": {"lease_s": 240.0}},
)

FIG8B = (
    Bars(
        "#1, 64 x 8 GPUs",
        Setup("elasticflow/traces/cluster01.csv.gz", 64, slot_s=60.0),
        {
            "edf": Bar(0.182, 8.0),
            "gandiva": Bar(0.246, 20.0),
            "tiresias": Bar(0.478, 8.0),
            "themis": Bar(0.464, 20.0),
            "chronus": Bar(0.474),
            "elasticflow": Bar(0.788, 30.0),
        },
    ),
    Bars(
        "#10, 32 x 8 GPUs",
        Setup("elasticflow/traces/cluster10.csv.gz", 32, slot_s=60.0),
        {
            "edf": Bar(0.769, 0.6),
            "gandiva": Bar(0.354, 1.0),
            "tiresias": Bar(0.473, 1.0),
            "themis": Bar(0.431, 15.0),
            "chronus": Bar(0.454),
            "elasticflow": Bar(0.981, 1.0),
        },
    ),
    Bars(
        "Philly, 4 x 8 GPUs",
        Setup(PHILLY, 4),
        {
            "edf": Bar(0.01, 8.0),
            "gandiva": Bar(0.15),
            "tiresias": Bar(0.32, 4.5),
            "themis": Bar(0.33),
            "chronus": Bar(0.324),
            "elasticflow": Bar(0.87, 5.5),
        },
    ),
)


def _fig9(first: int | None, cpu_s: tuple[float, float, float, float]) -> tuple[Bars, ...]:
    """`cpu_s`: of the four policies, each at the size where it takes longest."""
    policies = ("edf", "edf_admission", "edf_elastic", "elasticflow")
    return tuple(
        Bars(
            f"{8 * servers} GPUs",
            Setup("elasticflow/generated/1000job_1500lam.csv", servers, first=first),
            {
                policy: Bar(ratio, cost)
                for policy, ratio, cost in zip(policies, printed, cpu_s, strict=True)
            },
        )
        for servers, *printed in (
            (8, 0.026, 0.203, 0.452, 0.926),
            (16, 0.118, 0.326, 0.835, 0.949),
            (32, 0.118, 0.658, 0.939, 0.944),
        )
    )


QUICK_JOBS = 250
"""Of Fig. 9 in a quick run: the same load, for a quarter of the time."""

FIG9 = _fig9(None, (9.0, 3.0, 14.0, 18.0))
FIG9_QUICK = _fig9(QUICK_JOBS, (1.0, 1.0, 3.0, 3.0))

FIG10 = Bars(
    "100 jobs, 16 x 8 GPUs",
    Setup("elasticflow/generated/100jobs_1500lam.csv", 16, curves_h=200.0, at_speeds=True),
    {
        "edf": Bar(None, 1.0),
        "gandiva": Bar(None, 2.0),
        "tiresias": Bar(None, 1.0),
        "themis": Bar(None, 1.0),
        "elasticflow": Bar(None, 1.0),
    },
)

FIG11 = tuple(
    Bars(
        f"{tenths}0 %",
        Setup(f"elasticflow/generated/200jobs_900lam_0.{tenths}.csv", 8),
        {
            "edf": Bar(edf, 1.0),
            "gandiva": Bar(gandiva, 8.0),
            "tiresias": Bar(tiresias, 1.0),
            "themis": Bar(themis, 1.0),
            "chronus": Bar(chronus),
            "elasticflow": Bar(elasticflow, 2.0),
        },
    )
    for tenths, edf, gandiva, tiresias, themis, chronus, elasticflow in (
        (1, 0.09, 0.25, 0.46, 0.41, 0.42, 0.74),
        (2, 0.1, 0.24, 0.46, 0.4, 0.42, 0.67),
        (3, 0.15, 0.2, 0.44, 0.37, 0.4, 0.67),
        (4, 0.15, 0.18, 0.42, 0.34, 0.37, 0.69),
        (5, 0.23, 0.19, 0.43, 0.36, 0.4, 0.68),
        (6, 0.28, 0.17, 0.41, 0.34, 0.39, 0.76),
        (7, 0.44, 0.18, 0.44, 0.35, 0.42, 0.82),
        (8, 0.79, 0.18, 0.5, 0.42, 0.5, 0.92),
        (9, 0.95, 0.16, 0.53, 0.37, 0.53, 0.95),
    )
)

SPEEDUPS = {
    "edf": (0.05, 0.05, 0.05, 0.05, 0.07, 0.07, 0.08, 0.08, 0.1),
    "gandiva": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    "tiresias": (1.44, 1.39, 1.33, 1.31, 1.26, 1.27, 1.28, 1.3, 1.45),
    "themis": (1.37, 1.36, 1.34, 1.32, 1.26, 1.27, 1.29, 1.29, 1.46),
    "chronus": (1.5, 1.45, 1.4, 1.38, 1.29, 1.29, 1.28, 1.29, 1.44),
    "elasticflow": (1.6, 1.37, 1.18, 1.11, 1.27, 1.24, 1.19, 1.16, 1.31),
}
"""Fig. 11(b): Gandiva's mean JCT of best-effort jobs over that of each, from 10 % to 90 %."""
