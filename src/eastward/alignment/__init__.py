"""Align a user's trained network with the metric that judges it.

:func:`eastward.align` does everything; :class:`AlignmentSchedule` is its plan for your own training loop. Import the
function from ``eastward``, so that the schedule needs nothing but torch.
"""

from eastward.alignment.schedule import AlignmentSchedule, ScheduleRun

__all__ = ["AlignmentSchedule", "ScheduleRun"]
