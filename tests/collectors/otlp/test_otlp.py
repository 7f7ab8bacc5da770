"""The OTLP receiver: names by the catalogue, broken points, credentials, a real exporter."""

import json
import subprocess
import time

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as messages
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub

from collectors.model.entities import Switch
from collectors.model.errors import ConfigInvalid, Unavailable
from collectors.otlp.receiver import OtlpReceiver
from collectors.targets.pushed import Exporter, Options, ServerTls
from collectors.targets.secret import Secret
from simlab.switches.own_environment import OPENTELEMETRY, NotInstalled, python
from tests.collectors.passes import clock, series

LEAF = Switch("leaf1", "leaf1")
SP3 = {"interface": "swp1", "sp": "3"}
END = "interface/leaf1/swp1"

EXPORTER = """
import json, sys, time
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
import grpc
port, token, ca = sys.argv[1:4]
credentials = None
if ca:
    with open(ca, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
exporter = OTLPMetricExporter(
    endpoint=f"localhost:{port}", insecure=not ca, credentials=credentials,
    headers={"authorization": f"Bearer {token}"} if token else None, timeout=5)
reader = PeriodicExportingMetricReader(exporter, export_interval_millis=60_000)
provider = MeterProvider([reader], resource=Resource({"host.name": "leaf1"}))
meter = provider.get_meter("cumulus")
pause = meter.create_gauge("nvswitch_interface_sp_rx_pause_duration")
pause.set(1500.0, {"interface": "swp1", "sp": "3"})
marked = meter.create_counter("nvswitch_interface_tc_tx_ecn_marked_tc")
marked.add(41, {"interface": "swp1", "tc": "3"})
marked.add(1, {"interface": "swp1", "tc": "3"})
print(json.dumps(bool(provider.force_flush(8000))))
"""


@pytest.fixture
def serve():
    made = []

    def make(*exporters, **options):
        options = {"address": "127.0.0.1", "port": 0, "interval_s": 60.0} | options
        made.append(OtlpReceiver(clock, Options(**options), exporters))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


def request(*points, host="leaf1", kind="gauge", when=None, start=0):
    made = messages.ExportMetricsServiceRequest()
    resource = made.resource_metrics.add()
    pair = resource.resource.attributes.add(key="host.name")
    pair.value.string_value = host
    scope = resource.scope_metrics.add()
    for name, labels, value in points:
        metric = scope.metrics.add(name=name)
        data = getattr(metric, kind)
        if kind == "sum":
            data.aggregation_temporality = 2
        point = data.data_points.add(
            time_unix_nano=time.time_ns() if when is None else when, start_time_unix_nano=start
        )
        if value is None:
            point.flags = 1
        else:
            point.as_double = value
        for key, text in labels.items():
            point.attributes.add(key=key).value.string_value = text
    return made


def push(receiver, *requests, metadata=()):
    with grpc.insecure_channel(f"127.0.0.1:{receiver.port}") as channel:
        stub = MetricsServiceStub(channel)
        return [stub.Export(one, timeout=5, metadata=metadata) for one in requests]


def reasons(result):
    return {(gap.subject, gap.what, gap.reason) for gap in result.gaps}


def exporter(expected=False, wants=lambda _name: True):
    return Exporter(LEAF, "192.0.2.1", wants, "nvue", expected)


def test_pause_time_and_marks_per_class(serve):
    receiver = serve(exporter())
    push(
        receiver,
        request(
            ("nvswitch_interface_sp_rx_pause", SP3, 7.0),
            ("nvswitch_interface_sp_rx_pause_duration", SP3, 2500.0),
            ("nvswitch_interface_tc_tx_ecn_marked_tc", {"interface": "swp1", "tc": "3"}, 9.0),
            ("nvswitch_interface_pg_rx_buffer_discard", {"interface": "swp1", "pg": "2"}, 4.0),
            ("nvswitch_interface_oper_state", {"interface": "swp1"}, 2.0),
        ),
    )
    assert series(receiver.read(clock)) == {
        (f"priority/3/{END}", "fabric_pfc_rx_frames_total"): 7,
        (f"priority/3/{END}", "fabric_pfc_rx_pause_seconds_total"): 0.0025,
        (f"queue/3/{END}", "fabric_queue_ecn_marked_packets_total"): 9,
        (f"priority_group/2/{END}", "fabric_priority_group_no_buffer_drop_packets_total"): 4,
        (END, "fabric_interface_oper_state_id"): 2,
    }
    assert series(receiver.read(clock)) == {}  # said once, not again without news


def test_bad_points_are_refused_by_count_and_named(serve):
    receiver = serve(exporter())
    name = "nvswitch_interface_sp_rx_pause"
    bad = request(
        (name, {"interface": "swp1"}, 1.0),
        (name, {"sp": "3"}, 1.0),
        (name, {"interface": "swp1", "sp": "three"}, 1.0),
        (name, SP3, -4272.0),  # U11
        (name, SP3, float("nan")),
        ("nvswitch_interface_sp_rx_surprise", SP3, 1.0),
    )
    (answer,) = push(receiver, bad)
    assert answer.partial_success.rejected_data_points == 5
    result = receiver.read(clock)
    assert series(result) == {}
    assert {(what, reason) for _, what, reason in reasons(result)} == {
        ("fabric_pfc_rx_frames_total", "no attribute `sp`"),
        ("fabric_pfc_rx_frames_total", "no attribute `interface`"),
        ("fabric_pfc_rx_frames_total", "negative or not finite"),
        ("nvswitch_interface_sp_rx_surprise", "not in the catalogue"),
    }


def test_a_delta_is_no_counter(serve):
    receiver = serve(exporter())
    delta = request(("nvswitch_interface_sp_rx_pause", SP3, 1.0), kind="sum")
    delta.resource_metrics[0].scope_metrics[0].metrics[0].sum.aggregation_temporality = 1
    (answer,) = push(receiver, delta)
    assert answer.partial_success.rejected_data_points == 1
    assert series(receiver.read(clock)) == {}


def test_no_recorded_value_removes_the_series(serve):
    receiver = serve(exporter())
    both = [
        ("nvswitch_interface_sp_rx_pause", SP3, 1.0),
        ("nvswitch_interface_sp_tx_pause", SP3, 2),
    ]
    push(receiver, request(*both), request((*both[0][:2], None), (*both[1][:2], 3.0)))
    assert series(receiver.read(clock)) == {(f"priority/3/{END}", "fabric_pfc_tx_frames_total"): 3}


def test_a_restarted_sum_is_another_incarnation(serve):
    receiver = serve(exporter())
    seen = []
    for start in (1_000, 2_000):
        push(receiver, request(("nvswitch_interface_sp_rx_pause", SP3, 5), kind="sum", start=start))
        seen += [row.incarnation for row in receiver.read(clock).readings if row.entity != LEAF]
    assert len(set(seen)) == 2


@pytest.mark.parametrize("ahead_ns", [-(10**18), 3600 * 10**9])
def test_a_clock_that_cannot_be_believed_is_not(serve, ahead_ns):
    receiver = serve(exporter())
    when = max(0, time.time_ns() + ahead_ns)
    push(receiver, request(("nvswitch_interface_sp_rx_pause", SP3, 5), when=when))
    (reading,) = [row for row in receiver.read(clock).readings if row.entity != LEAF]
    assert abs(reading.when.at_ns - time.time_ns()) < 60 * 10**9


def test_strangers_are_refused_where_there_is_an_inventory(serve):
    receiver = serve(exporter())
    (answer,) = push(receiver, request(("nvswitch_interface_sp_rx_pause", SP3, 1), host="leaf9"))
    assert answer.partial_success.rejected_data_points == 1
    result = receiver.read(clock)
    assert ("leaf9", "otlp", "unknown exporter") in reasons(result)
    assert series(result) == {}
    everybody = serve()
    push(everybody, request(("nvswitch_interface_sp_rx_pause", SP3, 1), host="leaf9"))
    assert ("priority/3/interface/leaf9/swp1", "fabric_pfc_rx_frames_total") in series(
        everybody.read(clock)
    )


def test_unwanted_interfaces_are_left_out(serve):
    receiver = serve(exporter(wants=lambda name: name != "swp1"))
    (answer,) = push(receiver, request(("nvswitch_interface_sp_rx_pause", SP3, 1)))
    assert answer.partial_success.rejected_data_points == 0
    assert series(receiver.read(clock)) == {}


def test_silence_is_a_gap_and_a_target_that_is_not_up(serve):
    receiver = serve(exporter(expected=True), interval_s=0.05)

    def look():
        result = receiver.read(clock)
        (up,) = [
            value
            for row in result.readings
            for column, value in row.values.items()
            if column.metric == "fabric_target_up_id"
        ]
        return up, ("switch/leaf1", "otlp", "silent") in reasons(result)

    time.sleep(0.2)
    assert look() == (0, True)
    receiver._exporters._options = Options(interval_s=60)
    push(receiver, request(("nvswitch_interface_sp_rx_pause", SP3, 1)))
    assert look() == (1, False)


def test_series_are_bounded(serve):
    receiver = serve(exporter(), max_series=10)
    name = "nvswitch_interface_sp_rx_pause"
    push(receiver, request(*[(name, {"interface": f"swp{n}", "sp": "3"}, 1) for n in range(100)]))
    result = receiver.read(clock)
    assert len(series(result)) == 10
    assert ("switch/leaf1", "fabric_pfc_rx_frames_total", "too many series") in reasons(result)


def test_a_message_over_the_bound_is_refused(serve):
    receiver = serve(exporter(), max_message_bytes=1 << 16)
    points = [
        ("nvswitch_interface_sp_rx_pause", {"interface": f"swp{n}", "sp": "3"}, 1)
        for n in range(2000)
    ]
    with pytest.raises(grpc.RpcError) as caught:
        push(receiver, request(*points))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert series(receiver.read(clock)) == {}


def test_the_token_is_asked_for_and_not_told(serve):
    receiver = serve(exporter(), token=Secret("t0ken-in-hiding"))
    point = request(("nvswitch_interface_sp_rx_pause", SP3, 1))
    for metadata in (
        (),
        (("authorization", "Bearer wrong"),),
        (("authorization", "Basic t0ken-in-hiding"),),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            push(receiver, point, metadata=metadata)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "t0ken-in-hiding" not in str(caught.value)
    result = receiver.read(clock)
    assert series(result) == {}
    assert ("127.0.0.1", "otlp", "denied") in reasons(result)
    assert "t0ken-in-hiding" not in repr(receiver._exporters._options) + str(result)
    push(receiver, point, metadata=(("authorization", "Bearer t0ken-in-hiding"),))
    assert series(receiver.read(clock))


def test_a_port_that_is_taken_and_files_that_are_not_there(serve, tmp_path):
    receiver = serve()
    with pytest.raises(Unavailable, match="another receiver"):
        serve(port=receiver.port)
    tls = ServerTls(str(tmp_path / "no.pem"), str(tmp_path / "no.key"))
    with pytest.raises(ConfigInvalid, match=r"no\.key"):
        serve(tls=tls)


@pytest.mark.lab_switch
@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls and token"])
def test_a_real_exporter(serve, tmp_path, secured):
    try:
        interpreter = python(OPENTELEMETRY)
    except (NotInstalled, subprocess.SubprocessError) as lack:
        pytest.skip(f"the OpenTelemetry SDK cannot be installed: {lack}")
    options, ca = {}, ""
    if secured:
        ca, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-out", ca, "-keyout", key],
            check=True, capture_output=True,
        )  # fmt: skip
        options = {"tls": ServerTls(ca, key), "token": Secret("word")}
    receiver = serve(exporter(), **options)
    done = subprocess.run(
        [str(interpreter), "-c", EXPORTER, str(receiver.port), "word" if secured else "", ca],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout) is True, done.stderr
    assert series(receiver.read(clock)) == {
        (f"priority/3/{END}", "fabric_pfc_rx_pause_seconds_total"): 0.0015,
        (f"queue/3/{END}", "fabric_queue_ecn_marked_packets_total"): 42,
    }
