"""Autotuning: measure contractions with every promising schedule, and store the best on disk.

`store` is the file of measurements, `step_state` the state in which a step leaves the caches, and `measure` times
schedules in that state. The design is in ``docs/design/tuning.md``.
"""

from adjoint.tuning.measure import Tried, choices, contractions_by_work, measure_contractions, try_schedules
from adjoint.tuning.store import SECONDS, Measured, Tuning

__all__ = [
    "SECONDS",
    "Measured",
    "Tried",
    "Tuning",
    "choices",
    "contractions_by_work",
    "measure_contractions",
    "try_schedules",
]
