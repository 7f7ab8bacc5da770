"""A simulated SONiC switch in a real Redis: name maps, COUNTERS, watermarks, CONFIG_DB."""

from __future__ import annotations

from typing import Any, Final

import redis

from simlab.switches.gnmi_face import group_hash, port_hash, queue_hash
from simlab.switches.state import SLOTS, SwitchState, port_alias, port_name

PORT_OID: Final = 0x1000000000000
QUEUE_OID: Final = 0x15000000000000
GROUP_OID: Final = 0x1A000000000000
COUNTERS_DB: Final = 2
CONFIG_DB: Final = 4


class RedisFace:
    """Writes a state into Redis as SONiC lays it out."""

    def __init__(self, state: SwitchState, port: int, address: str = "127.0.0.1") -> None:
        self._state = state
        self._counters: Any = redis.Redis(host=address, port=port, db=COUNTERS_DB)
        self._config: Any = redis.Redis(host=address, port=port, db=CONFIG_DB)
        self._configure()
        self.refresh()

    def _configure(self) -> None:
        state, pipe = self._state, self._config.pipeline()
        metadata = {"hostname": state.name, "mac": state.mac, "hwsku": "Acme-64x400G"}
        pipe.hset("DEVICE_METADATA|localhost", mapping=metadata)
        wred = {"ecn": "ecn_all", "green_min_threshold": "1048576",
                "green_max_threshold": "2097152", "green_drop_probability": "5"}  # fmt: skip
        pipe.hset("WRED_PROFILE|AZURE_LOSSLESS", mapping=wred)
        for number in range(1, state.ports + 1):
            name = port_name("sonic", number)
            row = {"alias": port_alias("sonic", number), "mtu": "9100", "speed": "400000"}
            pipe.hset(f"PORT|{name}", mapping=row)
            pipe.hset(f"QUEUE|{name}|3", mapping={"wred_profile": "AZURE_LOSSLESS"})
            pipe.hset(f"PORT_QOS_MAP|{name}", mapping={"pfc_enable": "3,4"})
        pipe.execute()
        maps = self._counters.pipeline()
        for number in range(1, state.ports + 1):
            name = port_name("sonic", number)
            maps.hset("COUNTERS_PORT_NAME_MAP", name, f"oid:{PORT_OID + number:#x}")
            for slot in range(SLOTS):
                at = number * SLOTS + slot
                maps.hset("COUNTERS_QUEUE_NAME_MAP", f"{name}:{slot}", f"oid:{QUEUE_OID + at:#x}")
                maps.hset("COUNTERS_PG_NAME_MAP", f"{name}:{slot}", f"oid:{GROUP_OID + at:#x}")
        maps.execute()

    def refresh(self) -> None:
        """Write all numbers anew."""
        state, pipe = self._state, self._counters.pipeline(transaction=False)
        for number in range(1, state.ports + 1):
            port_oid = f"oid:{PORT_OID + number:#x}"
            pipe.hset(f"COUNTERS:{port_oid}", mapping=port_hash(state, number))
            for slot in range(SLOTS):
                at = number * SLOTS + slot
                queue, group = f"oid:{QUEUE_OID + at:#x}", f"oid:{GROUP_OID + at:#x}"
                pipe.hset(f"COUNTERS:{queue}", mapping=queue_hash(state, number, slot))
                pipe.hset(f"USER_WATERMARKS:{group}", mapping=group_hash(state, number, slot))
        pipe.execute()

    def close(self) -> None:
        """Close the connections."""
        self._counters.close()
        self._config.close()
