from .perfetto import write_perfetto as write_perfetto
from .recorder import record as record
from .recording import Recording as Recording
from .report import draw_report as draw_report
