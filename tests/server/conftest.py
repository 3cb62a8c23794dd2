"""Apps for all of these tests: none of them leaves anything that another one would see."""

from tests.prompting.tool_templates import TEMPLATES
from tests.serving import make_server, served, served_with

__all__ = ["make_server"]
server = served(scope="session")
tooled = served_with(TEMPLATES, "tools-")
