"""Align a trained network with the metric that judges it.

:func:`eastward.align` does everything in one call. :class:`AlignmentSchedule` is its plan for your own training loop.
Import ``align`` from ``eastward``, because it needs more than torch; the schedule does not.
"""

from eastward.alignment.schedule import AlignmentSchedule, ScheduleRun

__all__ = ["AlignmentSchedule", "ScheduleRun"]
