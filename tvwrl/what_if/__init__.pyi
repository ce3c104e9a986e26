from .command import WhatIfSettings as WhatIfSettings, what_if as what_if
from .compared import Compared as Compared, Outcome as Outcome, compare as compare
from .from_csv import prices_of as prices_of, read_csv_record as read_csv_record, with_prices as with_prices
from .from_prometheus import Asked as Asked, read_prometheus_record as read_prometheus_record
from .recorded import Recorded as Recorded, Trust as Trust
from .replay import Placed as Placed, Replay as Replay
from .shadow import shadow_placements as shadow_placements
from .words import trust as trust
