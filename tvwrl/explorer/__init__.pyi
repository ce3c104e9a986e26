from .recorder import Followed as Followed
from .html import write_explorer as write_explorer
from .recorder import ALL as ALL, MOST as MOST, SECONDS as SECONDS, record as record
from .recording import Recording as Recording
from .report import draw_report as draw_report
from .recording import (
    read_recording as read_recording,
    shortened as shortened,
    write_recording as write_recording,
)
from .trees import (
    EVERY_AGE as EVERY_AGE,
    Shown as Shown,
    costliest as costliest,
    facts_of as facts_of,
    most_costly as most_costly,
    scheduler_facts as scheduler_facts,
    sequence_facts as sequence_facts,
    sequence_tree as sequence_tree,
)
