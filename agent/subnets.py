"""From the configuration of an InfiniBand subnet to what opens its collector."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.config import InfiniBand, required_secret
from collectors.model.errors import ConfigInvalid
from collectors.model.reading import Collector


def subnet_builder(subnet: InfiniBand, where: str) -> Callable[[], Collector]:
    """Return what opens the subnet's collector; where: path in the configuration, for errors."""

    def build() -> Collector:
        from collectors.infiniband.collector import InfinibandCollector, SweepOptions
        from collectors.infiniband.topology import parse_node_names
        from collectors.infiniband.transactor import Limits
        from collectors.infiniband.umad import open_umad

        names = {}
        if subnet.node_names:
            try:
                names = parse_node_names(Path(subnet.node_names).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                at = f"{where}.node_names"
                raise ConfigInvalid(at, f"read {subnet.node_names}", str(error)) from error
        options = SweepOptions(
            limits=Limits(
                window=subnet.window,
                vl15_window=max(subnet.window // 4, 1),
                per_device=subnet.per_device,
                timeout_s=subnet.timeout,
                retries=subnet.retries,
            ),
            groups=subnet.groups,
            rediscover_s=subnet.rediscover,
            budget_s=subnet.deadline,
            names=names,
            from_sa=subnet.discover == "sa",
            congestion=subnet.congestion,
            qos=subnet.qos,
            routes=subnet.routes,
            m_key=_key(subnet.m_key_file, subnet.m_key_env, f"{where}.m_key"),
            cc_key=_key(subnet.cc_key_file, subnet.cc_key_env, f"{where}.cc_key"),
        )
        return InfinibandCollector(
            lambda: open_umad(
                subnet.device, subnet.port, sl=subnet.sl, pkey_index=subnet.pkey_index
            ),
            options,
        )

    return build


def _key(file: str, variable: str, where: str) -> int:
    """Return a management key, 0 where none is configured; never says it in an error."""
    if not file and not variable:
        return 0
    try:
        return int(required_secret(variable, file, where).reveal(), 16)
    except ValueError:
        raise ConfigInvalid(where, "read key", "not a hex number") from None
