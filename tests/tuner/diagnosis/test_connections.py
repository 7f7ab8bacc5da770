"""Queue pairs find their other end by address, however it is written."""

import pytest

from collectors.model.entities import Device, Port
from collectors.model.facts import Gid, QueuePairFact
from tests.tuner.diagnosis.audit_fabric import AuditTelemetry
from tuner.diagnosis.connections import connections, senders_by_receiver

ONE, TWO = Device("h1", "1", "mlx5_0"), Device("h2", "2", "mlx5_0")
V4, V6 = "10.0.0.2", "2001:db8::2"


def found(gid: str, remote: str):
    telemetry = AuditTelemetry()
    telemetry.table = {Port(TWO, 1): [Gid(Port(TWO, 1), 3, gid, "RoCE v2", "eth0")]}
    telemetry.pairs = [
        QueuePairFact(ONE, 1, 5, 6, local_address="10.0.0.1", remote_address=remote),
        QueuePairFact(TWO, 1, 6, 5, local_address=remote, remote_address="10.0.0.1"),
    ]
    return telemetry


@pytest.mark.parametrize(
    ("gid", "remote"),
    [
        ("::ffff:10.0.0.2", V4),
        (V4, "::ffff:a00:2"),
        ("2001:0db8:0000:0000:0000:0000:0000:0002", V6),
        (V6, "2001:DB8::2"),
    ],
)
def test_one_address_in_two_spellings_is_one(gid, remote):
    telemetry = found(gid, remote)
    (one,) = connections(telemetry)
    assert (one.src, one.dst) == (Port(ONE, 1), Port(TWO, 1))
    assert senders_by_receiver(telemetry) == {Port(TWO, 1): {Port(ONE, 1): 1}}


@pytest.mark.parametrize(
    "gid", ["fe80::2", "febf::2", "fe80::2%eth0", "169.254.0.2", "", "no address", "10.0.0.2\0"]
)
def test_what_is_of_one_link_or_no_address_joins_nothing(gid):
    assert connections(found(gid, gid)) == ()


def test_addresses_beside_those_of_a_link_join():
    assert connections(found("fec0::2", "fec0::2")) != ()
    assert connections(found("169.253.0.2", "169.253.0.2")) != ()
