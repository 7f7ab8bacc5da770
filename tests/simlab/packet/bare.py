"""The model that most tests count by hand with: the reference simulators' frames, and no control.

A data packet has 1000 bytes and 48 of headers, an ACK 60, a pause frame 64; no timeouts.
"""

from __future__ import annotations

from simlab.packet.parameters import CongestionControl, Form, Model, Transport
from simlab.packet.traffic import Traffic
from simlab.packet.workloads import Flow, traffic_of_flows

SIZE = 1048
WIRE = Transport(payload_bytes=1000, header_bytes=48, ack_bytes=60, control_bytes=64, rto_s=0.0)
OFF = CongestionControl(form=Form.OFF)
MODEL = Model(transport=WIRE, congestion=OFF)


def alone(packets: int = 1, priority: int = 3) -> Traffic:
    """Return one flow from host 0 to host 1 on a QP of its own."""
    flow = Flow(src=0, dst=1, size_bytes=1000 * packets, priority=priority)
    return traffic_of_flows([flow], reuse=False)
