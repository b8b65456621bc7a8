"""Faults in lending and reclaiming."""

from tests.faults.fault import Fault

FAULTS = (
    Fault(
        "reclaim-cost-per-worker",
        "the server preemption cost counts workers, not jobs",
        "loaning/occupancy.py",
        "cost[s] += sign / standing",
        "cost[s] += sign * workers[c] / standing",
        "tests/loaning/test_reclaim.py",
    ),
    Fault(
        "reclaim-at-the-minimum",
        "a job that keeps just its minimum is preempted",
        "loaning/reclaim.py",
        "(kept < on_loan.min_workers)",
        "(kept <= on_loan.min_workers)",
        "tests/loaning/test_reclaim.py",
    ),
    Fault(
        "hysteresis-inverted",
        "servers are lent before demand was low for long enough, and not after",
        "loaning/orchestrator.py",
        "low.lasted_s(problem.now_s) < hold_s",
        "low.lasted_s(problem.now_s) > hold_s",
        "tests/loaning/test_orchestrator.py",
    ),
    Fault(
        "hysteresis-most-spare",
        "as many servers are lent as were to spare at some moment, not throughout",
        "loaning/hysteresis.py",
        "min(self.spare, spare)",
        "max(self.spare, spare)",
        "tests/loaning/test_orchestrator.py",
    ),
    Fault(
        "forecast-without-headroom",
        "servers are counted at their full capacity",
        "loaning/orchestrator.py",
        "(problem.server_rps * self.headroom)",
        "problem.server_rps",
        "tests/loaning/test_orchestrator.py",
    ),
    Fault(
        "forecast-without-lead",
        "a rise is not carried ahead by the lead",
        "loaning/forecast.py",
        "self.level_rps + rise * lead_s",
        "self.level_rps + rise",
        "tests/loaning/test_forecast.py",
    ),
    Fault(
        "vacating-not-turned-back",
        "servers are reclaimed although vacating ones could turn back",
        "loaning/orchestrator.py",
        "short = needed - problem.serving - turned_back",
        "short = needed - problem.serving",
        "tests/loaning/test_orchestrator.py",
    ),
    Fault(
        "below-minimum-on-its-way-out",
        "a job below its minimum counts as preempted before it is",
        "loaning/occupancy.py",
        "np.maximum(0, on_loan.elsewhere + total - on_loan.min_workers)",
        "on_loan.elsewhere + total - on_loan.min_workers",
        "tests/loaning/test_reclaim.py",
    ),
    Fault(
        "forecast-error-of-the-sample",
        "the standard error takes the line's two degrees of freedom for data",
        "loaning/forecast.py",
        "/ (count - 2)",
        "/ count",
        "tests/loaning/test_forecast.py",
    ),
)
