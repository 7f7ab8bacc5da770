"""The subscription as it lives: modes, faults, fallbacks, credentials."""

import asyncio

import pytest

from collectors.gnmi.client import Dial
from collectors.model.errors import Denied, FabricError, NotSupported, Unavailable
from collectors.targets.secret import Secret
from simlab.switches.gnmi_target import GnmiFaults
from tests.collectors.passes import clock, reasons, values

from .conftest import first_error

RX = "fabric_pfc_rx_frames_total"
WORD = "correct horse"


@pytest.mark.parametrize("platform", ["eos", "junos", "nxos", "nvue", "sonic"])
def test_pfc_of_every_platform(rig, platform):
    made = rig(platform)
    if platform == "sonic":
        made.subscriber = made.new(aliases={"etp1": "Ethernet0", "etp2": "Ethernet4"})
    got = values(made.poll())
    names = {
        "eos": "Ethernet2%2F1",
        "junos": "et-0%2F0%2F1",
        "nxos": "Ethernet1%2F2",
        "nvue": "swp2",
    }
    entity = f"priority/3/interface/leaf1/{names.get(platform, 'Ethernet4')}"
    assert got[entity, RX] == made.state.get("pfc_rx", 2, 3)
    assert got[entity, "fabric_pfc_tx_frames_total"] == made.state.get("pfc_tx", 2, 3)


def test_samples_go_on(rig):
    made = rig("eos")
    made.poll()
    made.state.add("pfc_rx", 1, 3, 1000)
    got = values(made.poll(wait_s=0.4))
    assert got["priority/3/interface/leaf1/Ethernet1%2F1", RX] == made.state.get("pfc_rx", 1, 3)


def test_g19_what_the_model_has_and_the_device_does_not_say(rig):
    made = rig("eos")
    made.target.face.hidden.add("q_ecn")
    result = made.poll()
    assert ("fabric_queue_ecn_marked_packets_total", "not supported") in reasons(result)
    assert (RX, "not supported") not in reasons(result)


def test_g9_a_stream_that_falls_silent_is_noticed_and_asked_once(rig):
    made = rig("eos", GnmiFaults(silent_after=1))
    made.poll()
    gaps = set()
    modes = set()
    made.state.add("pfc_rx", 1, 3, 77)
    fresh = 0
    for _ in range(25):
        try:
            result = made.poll(wait_s=0.1)
        except FabricError:
            continue
        gaps |= reasons(result)
        modes.add(made.subscriber.mode)
        fresh += bool(result.readings)
    assert ("gnmi stale", "Unavailable") in gaps
    assert fresh >= 6
    assert made.target.calls.count("subscribe") >= 3


def test_g9_a_target_whose_samples_stop_again_is_polled(rig):
    """As sonic-buildimage 22201: one sample, and then silence, on every stream."""
    made = rig("eos", GnmiFaults(silent_after=0))
    gaps, modes, last = set(), [], {}
    for _ in range(40):
        made.state.add("pfc_rx", 1, 3, 1)
        try:
            result = made.poll(wait_s=0.1)
        except FabricError:
            continue
        gaps |= reasons(result)
        modes.append(made.subscriber.mode)
        last |= values(result)
        if modes[-10:] == ["poll"] * 10:
            break
    assert ("gnmi sample", "falls silent") in gaps
    assert modes[-10:] == ["poll"] * 10
    streams = made.target.calls.count("subscribe")
    for _ in range(5):
        made.state.add("pfc_rx", 1, 3, 1000)
        last |= values(made.poll(wait_s=0.2))
    assert made.target.calls.count("subscribe") == streams  # all on one call
    counted = last["priority/3/interface/leaf1/Ethernet1%2F1", RX]
    assert counted >= made.state.get("pfc_rx", 1, 3) - 1000


def test_g9_polled_from_the_beginning_where_asked_for(rig):
    made = rig("eos")
    made.subscriber = made.new(poll=True)
    made.poll()
    made.state.add("pfc_rx", 1, 3, 1000)
    got = values(made.poll(wait_s=0.4))
    assert got["priority/3/interface/leaf1/Ethernet1%2F1", RX] == made.state.get("pfc_rx", 1, 3)
    assert made.subscriber.mode == "poll"
    assert made.target.calls.count("poll") >= 2


def test_g9_a_target_that_cannot_be_polled_is_sampled(rig):
    made = rig("eos", GnmiFaults(no_poll=True))
    made.subscriber = made.new(poll=True)
    seen = []
    for _ in range(20):
        try:
            made.poll(wait_s=0.1)
        except FabricError:
            continue
        seen.append(made.subscriber.mode)
        if seen[-3:] == ["stream"] * 3:
            break
    assert seen[-3:] == ["stream"] * 3


def test_g9_get_is_the_last_resort(rig):
    made = rig("eos", GnmiFaults(busy=10_000))
    seen = {}
    for _ in range(5):
        try:
            seen |= values(made.poll(wait_s=0.1))
        except Unavailable:
            pass
    assert seen["priority/3/interface/leaf1/Ethernet1%2F1", RX] == made.state.get("pfc_rx", 1, 3)
    assert "get" in made.target.calls


def test_a_busy_cumulus_is_asked_again_and_never_by_get(rig):
    made = rig("nvue", GnmiFaults(busy=2, no_get=True))
    seen, said = {}, []
    for _ in range(10):
        try:
            seen |= values(made.poll(wait_s=0.1))
        except Unavailable as error:
            said.append(str(error))
    assert all("busy" in text for text in said)
    assert seen["priority/3/interface/leaf1/swp1", RX] == made.state.get("pfc_rx", 1, 3)
    assert "get" not in made.target.calls


def test_g1_on_change_values_stay_valid_while_the_stream_lives(rig):
    made = rig("nvue_netq", GnmiFaults(on_change_only=True))
    first = values(made.poll())
    later = values(made.poll(wait_s=0.6))
    assert first == later
    assert len(first) > 10


def test_the_wrong_types_cost_only_themselves(rig):
    made = rig("eos", GnmiFaults(wrong_types=True))
    result = made.poll()
    assert (RX, "not numeric") in reasons(result)
    assert {metric for _, metric in values(result)} == {"fabric_interface_oper_state_id"}


@pytest.mark.parametrize(("platform", "basic"), [("eos", False), ("nvue", True)])
def test_user_and_password_travel_as_the_platform_wants(rig, platform, basic):
    faults = GnmiFaults(user=("ann", WORD), basic_only=basic)
    made = rig(platform, faults, user="ann", password=Secret(WORD))
    assert values(made.poll())


def test_a_wrong_password_is_one_line_without_it(rig):
    made = rig("eos", GnmiFaults(user=("ann", WORD)), user="ann", password=Secret("battery staple"))
    error = first_error(made)
    assert isinstance(error, Denied)
    assert "leaf1: gnmi capabilities: unauthenticated" in str(error)
    assert "battery" not in str(error)


def test_g8_a_large_message_needs_room(rig):
    made = rig("eos", GnmiFaults(one_message=True), ports=40, max_message_bytes=100_000)
    assert "raise max_message_bytes" in str(first_error(made))
    made.dial = Dial("127.0.0.1", made.port, max_message_bytes=64 << 20)
    made.run(made.subscriber.close())
    made.subscriber = made.new()
    assert len(values(made.poll())) > 1000


def test_g8_a_peer_that_is_gone_without_a_word(rig):
    """Half-open TCP: bytes vanish; silence is noticed long before TCP would."""
    made = rig("eos")

    async def run():
        open_streams = []

        async def pipe(reader, writer, gate):
            while data := await reader.read(65536):
                await gate.wait()
                writer.write(data)
                await writer.drain()

        gate = asyncio.Event()
        gate.set()

        async def serve(reader, writer):
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", made.port)
            pipes = (pipe(reader, up_writer, gate), pipe(up_reader, writer, gate))
            open_streams.extend(asyncio.create_task(end) for end in pipes)

        proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
        made.dial = Dial("127.0.0.1", proxy.sockets[0].getsockname()[1], timeout_s=0.5)
        subscriber = made.new()
        assert values(await subscriber.poll(clock))
        gate.clear()
        await asyncio.sleep(0.5)
        await asyncio.sleep(1.0)
        gate.set()
        again, gaps = {}, set()
        for _ in range(15):
            await asyncio.sleep(0.2)
            try:
                result = await subscriber.poll(clock)
            except FabricError:
                continue
            again |= values(result)
            gaps |= reasons(result)
        await subscriber.close()
        proxy.close()
        for stream in open_streams:
            stream.cancel()
        return gaps, again

    gaps, again = made.run(run())
    assert ("gnmi stale", "Unavailable") in gaps
    assert again


def test_nothing_listens(rig):
    made = rig("eos")
    made.run(made.target.close())
    assert "leaf1: gnmi capabilities: unavailable" in str(first_error(made))


def test_a_target_that_comes_back_is_read_again(rig):
    made = rig("eos")
    assert values(made.poll())
    made.run(made.target.close())
    assert first_error(made) is not None
    made.state.restart()
    made.run(made.target.listen(port=made.port))
    got = {}
    for _ in range(30):
        try:
            got |= values(made.poll(wait_s=0.2))
        except FabricError:
            continue
        if got:
            break
    assert got["priority/3/interface/leaf1/Ethernet1%2F1", RX] == 0


def test_no_common_encoding_is_said_so(rig):
    made = rig("sonic")
    made.target.encodings = ("PROTO",)
    error = first_error(made)
    assert isinstance(error, NotSupported)
    assert "offers PROTO, not one of JSON_IETF" in str(error)


@pytest.mark.parametrize("encodings", [("JSON", "PROTO", "JSON_IETF"), ("JSON", "PROTO")])
def test_settings_are_read_beside_the_stream(rig, encodings):
    """From single leaves or whole trees; a profile that changes is seen at the next look."""
    made = rig("eos")
    made.target.encodings = encodings
    profile = "/qos/queue-management-profiles/queue-management-profile[name=ROCE]/wred/uniform"
    queue = "/qos/interfaces/interface[interface-id=Ethernet1/1]/output/queues/queue[name=3]/config"
    leaves = {
        f"{queue}/queue-management-profile": "ROCE",
        f"{profile}/config": {"enable-ecn": True, "min-threshold": "200000"},
        f"{profile}/config/max-threshold": 2_000_000,
        "/interfaces/interface[name=Ethernet1/1]/config/mtu": 9214,
    }
    made.target.face.put(leaves)
    made.subscriber = made.new(settings_s=0.2)

    def settings():
        for _ in range(30):
            facts = made.poll(wait_s=0.1).facts
            if facts is not None and facts.settings:
                return {(str(row.entity), row.name): row.value for row in facts.settings}
        raise AssertionError("no settings")

    end = "interface/leaf1/Ethernet1%2F1"
    assert settings() == {
        (end, "mtu_bytes"): 9214,
        (f"queue/3/{end}", "wred_profile"): "ROCE",
        (f"queue/3/{end}", "ecn_enabled"): True,
        (f"queue/3/{end}", "kmin_bytes"): 200_000,
        (f"queue/3/{end}", "kmax_bytes"): 2_000_000,
    }
    made.target.face.put({f"{profile}/config/max-threshold": 3_000_000})
    assert settings()[f"queue/3/{end}", "kmax_bytes"] == 3_000_000


def test_a_target_without_get_costs_a_gap_and_no_value(rig):
    made = rig("eos", GnmiFaults(no_get=True))
    made.subscriber = made.new(settings_s=0.1)
    seen, gaps = {}, set()
    for _ in range(5):
        result = made.poll(wait_s=0.1)
        seen |= values(result)
        gaps |= reasons(result)
    assert ("settings", "NotSupported") in gaps
    assert len(seen) > 10
