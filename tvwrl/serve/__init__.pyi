from .policies import open_policy as open_policy
from .record import read_lines as read_lines
