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
from .loaders import LOADERS as LOADERS
from .loaders.prometheus import Checks as Checks, Prometheus as Prometheus
from .loaders.prometheus_metrics import (
    ClusterMetrics as ClusterMetrics,
    MICRO as MICRO,
    POD as POD,
    good_usage as good_usage,
    node_pools as node_pools,
    one_node_each as one_node_each,
    owner_of as owner_of,
)
from .loaders.tianchi import LIMITS as LIMITS, POINTS as POINTS, Tianchi as Tianchi
from .overfull_nodes import overfull as overfull, said as said
from .preparation.loader import Rows as Rows
from .preparation.prepare import (
    PrepareOptions as PrepareOptions,
    prepare as prepare,
    prepare_and_report as prepare_and_report,
)
from .preparation.series import SeriesRules as SeriesRules
from .loaders.prometheus_server import (
    CPU as CPU,
    MEMORY as MEMORY,
    POD_INFO as POD_INFO,
    RetryPolicy as RetryPolicy,
    Selector as Selector,
    Server as Server,
    address as address,
    is_address as is_address,
    secret_headers as secret_headers,
)
from .past import OwnersUsage as OwnersUsage
from .sequences import (
    SequenceSampler as SequenceSampler,
    average_slots as average_slots,
    load_sequences as load_sequences,
    quantise as quantise,
    save_sequences as save_sequences,
)
from .splits import (
    FOLDS as FOLDS,
    Run as Run,
    Split as Split,
    UNSEEN as UNSEEN,
    gapless_runs as gapless_runs,
    check_others as check_others,
    share_workloads as share_workloads,
    split_trace as split_trace,
)
from .population_fit import fit_population as fit_population
from .statistics import DAY_SECONDS as DAY_SECONDS, compare_populations as compare_populations
from .synthetic import generate as generate, synthetic_trace as synthetic_trace
from .windows import (
    Windows as Windows,
    checked_series as checked_series,
    first_of_application as first_of_application,
    metadata_of as metadata_of,
)
from .pod_requests import (
    as_list as as_list,
    as_object as as_object,
    quantity as quantity,
    request_of as request_of,
)
