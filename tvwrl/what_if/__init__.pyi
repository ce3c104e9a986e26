from .compared import Compared as Compared, Outcome as Outcome, compare as compare
from .from_csv import read_csv_record as read_csv_record
from .from_prometheus import read_prometheus_record as read_prometheus_record
from .recorded import Recorded as Recorded, Trust as Trust
from .replay import Placed as Placed, Replay as Replay
from .shadow import shadow_placements as shadow_placements
