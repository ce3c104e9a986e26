from .canonical import HEADER as HEADER, read_trace as read_trace, trace_hash as trace_hash, write_trace as write_trace
from .catalogue import (
    data_folder as data_folder,
    describe_source as describe_source,
    find_trace as find_trace,
    how_to_open as how_to_open,
    open_and_describe as open_and_describe,
    open_trace as open_trace,
    trace_identity as trace_identity,
)
from .http_requests import RetryPolicy as RetryPolicy, is_address as is_address
from .loaders import LOADERS as LOADERS
from .loaders.prometheus import Prometheus as Prometheus
from .loaders.prometheus_api import Server as Server
from .loaders.prometheus import Checks as Checks
from .loaders.prometheus_cluster import (
    ClusterMetrics as ClusterMetrics,
    MICRO as MICRO,
    POD as POD,
    good_usage as good_usage,
    one_node_each as one_node_each,
)
from .loaders.prometheus_cluster import node_pools as node_pools
from .loaders.tianchi import LIMITS as LIMITS, POINTS as POINTS, Tianchi as Tianchi
from .overfull_nodes import overfull as overfull, said as said
from .loaders.prometheus_cluster import owner_of as owner_of
from .loaders.prometheus_cluster import requested as requested
from .preparation.loader import Rows as Rows
from .preparation.prepare import PrepareOptions as PrepareOptions, prepare_and_report as prepare_and_report
from .preparation.prepare import prepare as prepare
from .preparation.series import SeriesRules as SeriesRules
from .http_requests import address as address, secret_headers as secret_headers
from .loaders.prometheus_api import CPU as CPU, MEMORY as MEMORY, POD_INFO as POD_INFO, Selector as Selector
from .sequences import SequenceSampler as SequenceSampler, average_slots as average_slots, quantise as quantise
from .series import checked_series as checked_series
from .splits import (
    FOLDS as FOLDS,
    Run as Run,
    Split as Split,
    UNSEEN as UNSEEN,
    gapless_runs as gapless_runs,
    share_workloads as share_workloads,
    split_trace as split_trace,
)
from .statistics import DAY_SECONDS as DAY_SECONDS
from .synthetic import synthetic_trace as synthetic_trace
from .windows import Windows as Windows, metadata_of as metadata_of, stack_windows as stack_windows
