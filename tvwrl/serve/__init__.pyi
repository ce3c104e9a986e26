from .http_server import make_server as make_server
from .monitoring import Log as Log
from .policies import open_policy as open_policy
from .record import RotatingLines as RotatingLines, read_lines as read_lines
