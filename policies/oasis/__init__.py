"""OASiS (paper 002): admission and schedules by prices, for jobs with parameter servers.

`model` holds the jobs, `market` prices and what is taken, `schedule` the best schedule of one
arrival (Algorithms 1 and 2), `literal` the same in plain Python as printed, `offline` the optimum
in hindsight; on the policy contract, `translate` makes requests of its jobs, `reservations` keeps
schedules as memory, and `policy` decides.
"""

from policies.oasis.policy import Oasis

__all__ = ["Oasis"]
