"""Every host collector, one row each; the agent builds what its config asks for."""

from typing import Final

from collectors.host.context import HostCollector

HOST_COLLECTORS: Final[tuple[HostCollector, ...]] = ()
