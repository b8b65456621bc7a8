"""FfDL (paper 003): batch sizes that are chosen with the GPUs, against ones fixed for life."""

from raysched.simulator.reproductions.experiment import Experiment
from raysched.simulator.reproductions.ffdl import categories, clusters

EXPERIMENTS: tuple[Experiment, ...] = (
    categories.FIG_5,
    categories.FIG_6,
    clusters.FIG_7,
    clusters.TABLE_III,
    categories.FIG_8,
    categories.ALONE,
    clusters.FIG_9,
    clusters.TABLE_IV,
)
