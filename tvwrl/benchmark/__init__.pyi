from .comparison import (
    AGAINST as AGAINST,
    AGAINST_MOVES as AGAINST_MOVES,
    Comparison as Comparison,
    compare as compare,
    usual_against as usual_against,
)
from .dataset import record_dataset as record_dataset
from .entries import KINDS as KINDS, Setting as Setting, complete_own_first as complete_own_first, entry_of as entry_of
from .environment import TaskEnv as TaskEnv, TaskVectorEnv as TaskVectorEnv
from .submission import (
    Submission as Submission,
    check_submission as check_submission,
    read_submission as read_submission,
    submit as submit,
)
from .tasks import OBSERVED as OBSERVED, TASKS as TASKS, Task as Task, find_task as find_task
