"""Paper 004, Aryl: capacity loaning and elastic scaling in simulation (§7.2 to §7.5)."""

from __future__ import annotations

from raysched.simulator.reproductions.aryl.loaning import FIG7, FIG8, TABLE7, TABLE12
from raysched.simulator.reproductions.aryl.overall import FIG9, TABLE5
from raysched.simulator.reproductions.aryl.scaling import FIG11, FIG12, FIG13, FIG14
from raysched.simulator.reproductions.aryl.sensitivity import FIG10, TABLE6, TABLE9

EXPERIMENTS = (
    *(TABLE5, TABLE6, FIG9, FIG10),
    *(TABLE7, FIG7, FIG8, TABLE12),
    *(FIG11, FIG12, FIG13, FIG14, TABLE9),
)
