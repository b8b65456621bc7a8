"""The papers behind the policies, by the numbers under which code and docs cite them."""

from __future__ import annotations

PAPERS = {
    "000": "Hu et al., An Optimal Resource Allocator of Elastic Training for Deep Learning Jobs on "
    "Cloud (2021)",
    "001": "Gu et al., ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep "
    "Learning (ASPLOS 2023)",
    "002": "Bao et al., Online Job Scheduling in Distributed Machine Learning Clusters "
    "(INFOCOM 2018)",
    "003": "Saxena et al., Effective Elastic Scaling of Deep Learning Workloads (MASCOTS 2020)",
    "004": "Li et al., Aryl: An Elastic Cluster Scheduler for Deep Learning (2022)",
}


def cited(source: str) -> tuple[str | None, str]:
    """The paper that a policy's `source` begins with, if it cites one of these, and the rest."""
    number, _, section = source.partition(" ")
    return (PAPERS[number], section) if number in PAPERS else (None, source)
