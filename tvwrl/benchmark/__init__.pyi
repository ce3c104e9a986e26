from .comparison import AGAINST as AGAINST, Comparison as Comparison, compare as compare
from .environment import TaskEnv as TaskEnv, TaskVectorEnv as TaskVectorEnv
from .submission import (
    Submission as Submission,
    check_submission as check_submission,
    read_submission as read_submission,
    submit as submit,
)
from .tasks import OBSERVED as OBSERVED, TASKS as TASKS, Task as Task, find_task as find_task
