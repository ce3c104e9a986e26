from .canonical import read_trace as read_trace, trace_hash as trace_hash, write_trace as write_trace
from .catalogue import (
    data_folder as data_folder,
    describe_source as describe_source,
    find_trace as find_trace,
    open_and_describe as open_and_describe,
    open_trace as open_trace,
)
from .sequences import SequenceSampler as SequenceSampler
from .splits import split_trace as split_trace
from .synthetic import synthetic_trace as synthetic_trace
