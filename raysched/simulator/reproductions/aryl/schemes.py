"""The schemes that 004's tables and figures compare, by their names there."""

from __future__ import annotations

from raysched.simulator.reproductions.aryl.runs import (
    ADVANCED,
    BASELINE,
    BASIC,
    FIXED,
    IDEAL,
    LOANING,
    SCALING,
    Scheme,
    scheme,
)

TUNED = "Aryl+TunedJobs"
SCENARIOS: dict[str, Scheme] = {
    "Baseline": BASELINE,
    "Basic": BASIC,
    "Advanced": scheme("aryl", "aryl", **ADVANCED),
    "Ideal": scheme("aryl", "aryl", **IDEAL),
}
RECLAIMS: dict[str, Scheme] = {
    "Random": {**LOANING, "reclaim": "random"},
    "SCF": {**LOANING, "reclaim": "smallest_count_first"},
    "Aryl": LOANING,
}
SCHEDULERS: dict[str, Scheme] = {
    "Gandiva": scheme("gandiva_elastic"),
    "AFS": scheme("afs"),
    "Pollux": scheme("pollux", tuned=True),
    "Aryl": SCALING,
    TUNED: scheme("aryl", tuned=True),
}
BESIDE: dict[str, Scheme] = {
    "Baseline": BASELINE,
    **{name: SCHEDULERS[name] for name in ("Aryl", TUNED)},
}
"""What is run again at the scale of Pollux."""
ORDER_ALONE = scheme("aryl", **FIXED)
"""Neither loaning nor scaling: shortest job first is what is left."""
