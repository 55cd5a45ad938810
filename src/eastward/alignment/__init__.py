"""A trained network of a user's own, aligned with the metric that it is judged by.

:func:`eastward.align` is the whole of it; :class:`AlignmentSchedule` is its plan for loops of one's own. The function
is imported from ``eastward`` alone, so that the schedule needs nothing but torch.
"""

from eastward.alignment.schedule import AlignmentSchedule, ScheduleRun

__all__ = ["AlignmentSchedule", "ScheduleRun"]
