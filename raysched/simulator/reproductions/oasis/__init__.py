"""OASiS (paper 002): its simulations, Fig. 3 to 6 of §V-A.

Beside other schemes it is the policy over the live engine, which hands it GPUs. The ratio to the
optimum and wrong estimates take its core alone (`policies/oasis`: schedules of workers and
parameter servers over five resources), arrival by arrival. The testbed of §V-B is not repeated: our
text of the paper lost most of its numbers, and it has CPU jobs beside GPU jobs.
"""

from raysched.simulator.reproductions.oasis.alone import ESTIMATES, RATIO
from raysched.simulator.reproductions.oasis.beside_others import LATENESS, UTILITY

EXPERIMENTS = (UTILITY, LATENESS, RATIO, ESTIMATES)
