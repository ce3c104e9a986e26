from .classes import (
    CLASSES_FILE as CLASSES_FILE,
    Classes as Classes,
    EquivalenceClasses as EquivalenceClasses,
    OwnLabels as OwnLabels,
    classes_from as classes_from,
    find_classes as find_classes,
)
from .comparison import compare as compare
from .population import Population as Population, population_of as population_of
from .representations import REPRESENTATIONS as REPRESENTATIONS, TITLES as TITLES
