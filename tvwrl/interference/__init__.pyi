from .scheduler import WithInterference as WithInterference
from .score import InterferenceScore as InterferenceScore
