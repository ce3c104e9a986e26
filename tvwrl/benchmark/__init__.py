"""Named tasks that never change, and tables that compare any scheduler with ours on them (docs/reference/tasks.md)."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "AGAINST",
    "AGAINST_MOVES",
    "OBSERVED",
    "TASKS",
    "Comparison",
    "Submission",
    "Task",
    "TaskEnv",
    "TaskVectorEnv",
    "check_submission",
    "compare",
    "find_task",
    "read_submission",
    "submit",
]
