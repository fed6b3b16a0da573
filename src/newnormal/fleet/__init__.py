"""Many streams in one process: fitted in parallel, judged by one compiled call a tick.

`fleet` has the verbs. `streams` are the streams by name; `group` those of one shape,
which `newnormal.kernels.fleet` judges together; `stream` one of them; `work` what a call hands to
each group; `results` what comes back. `fitting` fits in other processes, `incidents` finds alarms
that open in many streams at once.
"""

from newnormal.fleet.fleet import Fleet
from newnormal.fleet.results import FleetEvent, FleetVerdicts, StreamError

__all__ = ["Fleet", "FleetEvent", "FleetVerdicts", "StreamError"]
