"""Devices that dial out: SONiC's and Arista's RPC, strangers, silence, bounds."""

import time

import grpc
import pytest
from gnmi_pb import gnmi_pb2 as gnmi

from collectors.gnmi.dialout import DialOutReceiver
from collectors.gnmi.paths import pack_path
from collectors.model.entities import Switch
from collectors.targets.pushed import Exporter, Options
from collectors.targets.secret import Secret
from tests.collectors.passes import clock, reasons, series

PRIORITY = "/interfaces/interface[name=Ethernet1]/ethernet/pfc/priorities/priority[index=3]"
RX = ("priority/3/interface/leaf1/Ethernet1", "fabric_pfc_rx_frames_total")
ARISTA = "/gnmireverse.gNMIReverse/Publish"
SONIC = "/gnmi.sonic.gNMIDialOut/Publish"


@pytest.fixture
def serve():
    made = []

    def make(*exporters, **options):
        settings = {"address": "127.0.0.1", "interval_s": 60.0} | options
        made.append(DialOutReceiver(clock, Options(**settings), exporters))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


def update(value, target="leaf1", path=f"{PRIORITY}/state/in-frames"):
    notification = gnmi.Notification(
        timestamp=time.time_ns(),
        prefix=gnmi.Path(target=target),
        update=[gnmi.Update(path=pack_path(path), val=value)],
    )
    return gnmi.SubscribeResponse(update=notification)


def publish(receiver, method, *responses, metadata=()):
    with grpc.insecure_channel(f"127.0.0.1:{receiver.port}") as channel:
        write = gnmi.SubscribeResponse.SerializeToString
        if method == ARISTA:
            call = channel.stream_unary(method, write, bytes)
            assert call(iter(responses), timeout=5, metadata=metadata) == b""
        else:
            call = channel.stream_stream(method, write, bytes)
            assert list(call(iter(responses), timeout=5, metadata=metadata)) == []


def leaf(platform="eos", address="192.0.2.1"):
    return Exporter(Switch("leaf1", "leaf1"), address, lambda _: True, platform)


def test_arista_by_the_name_in_the_prefix(serve):
    receiver = serve(leaf())
    sync = gnmi.SubscribeResponse(sync_response=True)
    value = gnmi.TypedValue(json_val=b"7")
    publish(receiver, ARISTA, update(value), sync)
    assert series(receiver.read(clock)) == {RX: 7}
    assert series(receiver.read(clock)) == {}


def test_sonic_by_its_address(serve):
    """SONiC puts the database there where others put their name."""
    receiver = serve(leaf("sonic", "127.0.0.1"))
    text = b'{"Ethernet1": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "9"}}'
    value = gnmi.TypedValue(json_ietf_val=text)
    publish(receiver, SONIC, update(value, "COUNTERS_DB", "/COUNTERS/Ethernet*"))
    assert series(receiver.read(clock)) == {RX: 9}


def test_strangers_and_wrong_tokens_leave_nothing_but_a_gap(serve):
    receiver = serve(leaf(), token=Secret("w0rd"))
    value = gnmi.TypedValue(uint_val=7)
    with pytest.raises(grpc.RpcError) as caught:
        publish(receiver, ARISTA, update(value))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    good = (("authorization", "Bearer w0rd"),)
    publish(receiver, ARISTA, update(value, target="leaf9"), metadata=good)
    result = receiver.read(clock)
    assert series(result) == {}
    assert reasons(result) == {("gnmi_dialout", "denied"), ("gnmi_dialout", "unknown exporter")}
    publish(receiver, ARISTA, update(value), metadata=good)
    assert series(receiver.read(clock)) == {RX: 7}


def test_a_message_over_the_bound_ends_the_stream(serve):
    receiver = serve(leaf(), max_message_bytes=1 << 16)
    large = gnmi.TypedValue(json_val=b'"' + b"x" * (1 << 17) + b'"')
    with pytest.raises(grpc.RpcError) as caught:
        publish(receiver, ARISTA, update(large))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
