from .classes import (
    CLASSES_FILE as CLASSES_FILE,
    Classes as Classes,
    DEFAULT_CLASSES as DEFAULT_CLASSES,
    EquivalenceClasses as EquivalenceClasses,
    GivenLabels as GivenLabels,
    OWN_LABELS as OWN_LABELS,
    OwnLabels as OwnLabels,
    classes_from as classes_from,
    find_classes as find_classes,
)
from .clustering import SMALLEST_K as SMALLEST_K
from .comparison import clustered as clustered, network_gains as network_gains
from .representations import (
    Population as Population,
    REPRESENTATIONS as REPRESENTATIONS,
    TITLES as TITLES,
    population_of as population_of,
)
