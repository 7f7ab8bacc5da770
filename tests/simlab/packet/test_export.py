"""Cases of the reference simulators: read as they are, written so that they read back."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from collectors.model.dcqcn import profile
from collectors.model.ecn import EcnThresholds
from collectors.model.errors import Malformed, NotSupported
from simlab.cli import app
from simlab.packet.config import load_config
from simlab.packet.hpcc_files import format_config, parse_config, parse_topology
from simlab.packet.interventions import What
from simlab.packet.parameters import CongestionControl, EcnAt, Form, Model, Spread, SwitchModel

INPUTS = Path(__file__).parents[4] / "shared/refsim/inputs"
PLAN = {
    "name": "case",
    "duration_s": 0.001,
    "topology": {"kind": "leaf_spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
    "workload": {"kind": "permutation", "size_bytes": 50_000, "shift": 2},
    "model": {
        "congestion": {"profile": "hpcc", "form": "firmware"},
        "switch": {
            "ecn": [
                {
                    "rate_bps": 100e9,
                    "thresholds": {"kmin_bytes": 400e3, "kmax_bytes": 1.6e6, "pmax_ratio": 0.2},
                }
            ]
        },
        "transport": {"payload_bytes": 1000},
    },
}


def call(*words):
    return CliRunner().invoke(app, ["packet", *(str(word) for word in words)])


@pytest.fixture
def exported(tmp_path):
    source = tmp_path / "plan.yaml"
    source.write_text(yaml.safe_dump(PLAN))

    def export(*options):
        done = call("export", source, "--out", tmp_path / "case", *options)
        assert done.exit_code == 0, done.output
        assert "UDP ports" in done.stdout
        assert "DCQCN" not in done.stdout
        return tmp_path / "case" / "case.config"

    return export


@pytest.mark.parametrize("name", ["paper", "nvidia_firmware", "hpcc", "simai"])
def test_config_reads_back(name):
    ecn = (
        EcnAt(rate_bps=100e9, thresholds=EcnThresholds(150e3, 1501e3, 0.07)),
        EcnAt(rate_bps=400e9, thresholds=EcnThresholds(18_750.0, 972_750.0, 1.0)),
    )
    dcqcn = profile(name, 100e9)
    model = Model(
        congestion=CongestionControl(dcqcn=dcqcn),
        switch=SwitchModel(ecn=ecn, buffer_bytes=16 << 20),
    )
    text = format_config(model, "case")
    back = parse_config(text)
    assert back.switch.ecn == ecn
    assert back.switch.buffer_bytes == 16 << 20
    kept = ("g", "alpha_period_s", "cut_window_s", "increase_timer_s", "recovery_stages", "ai_bps")
    for field in (*kept, "hai_bps", "min_rate_bps", "clamp_target"):
        value = getattr(back.congestion.dcqcn, field)
        assert value == pytest.approx(getattr(dcqcn, field)), field
    assert "CC_MODE 1\n" in text
    off = replace(model, congestion=CongestionControl(form=Form.OFF))
    assert "CC_MODE 0\n" in format_config(off, "case")


@pytest.mark.parametrize("options", [(), ("--conweave",)])
def test_a_whole_case_goes_out_and_comes_back(tmp_path, exported, options):
    back = tmp_path / "back.yaml"
    done = call("import", exported(*options), "--out", back, *options)
    assert done.exit_code == 0, done.output
    was, now = load_config(tmp_path / "plan.yaml"), load_config(back)
    assert now.topology.cables == was.topology.cables
    ends = [(one.src, one.dst) for one in was.traffic.connections]
    assert [(one.src, one.dst) for one in now.traffic.connections] == ends
    assert now.model.switch.ecn == was.model.switch.ecn
    assert now.model.transport.payload_bytes == 1000
    assert now.config.duration_s == pytest.approx(17 if options else 0.001)
    assert call("run", back, "--quiet").exit_code == 0


def test_what_a_config_file_says_beyond_dcqcn_is_heeded(tmp_path, exported):
    config = exported("--conweave")
    text = config.read_text()
    more = "ERROR_RATE_PER_LINK 0.001\nLINK_DOWN 200 4 6\nLB_MODE 6\nENABLE_PFC 0\nCC_MODE 0\n"
    config.write_text(text + more)
    back = tmp_path / "back.yaml"
    assert call("import", config, "--out", back, "--conweave").exit_code == 0
    plan = load_config(back)
    assert plan.model.balancing.spread is Spread.FLOWLET
    assert not plan.model.switch.pfc
    assert plan.model.congestion.form is Form.OFF
    down = [event for event in plan.events if event.what is What.LINK_DOWN]
    assert [(event.cable, event.at_s) for event in down] == [(4, pytest.approx(200e-6))]
    lossy = [event for event in plan.events if event.what is What.ERROR_RATE]
    assert len(lossy) == len(plan.topology.cables)
    config.write_text(text + "ENABLE_QCN 0\n")
    assert parse_config(config.read_text(), conweave=True).switch.ecn == ()


@pytest.mark.parametrize(
    "wrong",
    ["CC_MODE 3", "HAS_WIN 1", "LB_MODE 9", "ENABLE_IRN 1", "LINK_DOWN 1 0 6", "BUFFER_SIZE x"],
)
def test_a_case_that_we_cannot_simulate_is_refused_by_its_key(tmp_path, exported, wrong):
    config = exported()
    config.write_text(config.read_text() + wrong + "\n")
    done = call("import", config, "--out", tmp_path / "back.yaml")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert wrong.split()[0] in done.stderr
    assert not (tmp_path / "back.yaml").exists()
    with pytest.raises(NotSupported, match="CC_MODE"):
        parse_config("CC_MODE 7")


def test_an_export_says_what_the_files_do_not(tmp_path):
    source = tmp_path / "plan.yaml"
    ring = {"kind": "collective", "operation": "all_reduce", "size_bytes": 8000}
    model = {"balancing": {"spread": "spray"}, "congestion": {"profile": "paper"}}
    events = [{"at_s": 1e-4, "what": "link_up", "cable": 1}]
    source.write_text(yaml.safe_dump(PLAN | {"workload": ring, "model": model, "events": events}))
    done = call("export", source, "--out", tmp_path / "case")
    for words in ("dependencies: 4 messages", "1 events", "spray", "byte_counter_bytes"):
        assert words in done.stdout
    assert "g," not in done.stdout


def test_a_missing_file_of_a_case_is_named_with_its_option(tmp_path, exported):
    config = exported()
    (config.parent / "case.flows").unlink()
    done = call("import", config, "--out", tmp_path / "back.yaml")
    assert done.exit_code == 1
    assert "--flows" in done.stderr


@pytest.mark.parametrize(
    ("config", "topology", "flows"),
    [
        ("hpcc_ls2x4_100G_perm_1qp", "ls_2x4_16h_100_100", "perm_1qp.hpcc"),
        ("cw_ls2x4_100G_perm_1qp", "ls_2x4_16h_100_100", "perm_1qp.cw"),
    ],
)
def test_the_simulators_own_files_are_imported_as_they_are(tmp_path, config, topology, flows):
    if not INPUTS.exists():
        pytest.skip("needs ../shared/refsim")
    back = tmp_path / "back.yaml"
    done = call(
        "import", INPUTS / f"config/{config}.txt", "--topology", INPUTS / f"topo/{topology}.txt",
        "--flows", INPUTS / f"flow/{flows}.txt", "--out", back,
        *(["--conweave"] if config.startswith("cw") else []),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    plan = load_config(back)
    assert len(plan.traffic.messages) == 16
    assert {event.what for event in plan.events} <= {What.LINK_DOWN}


@pytest.mark.parametrize(
    ("key", "words", "told"),
    [
        ("KMIN_MAP", "1 100000000000", "KMIN_MAP"),  # half a pair
        ("KMAX_MAP", "1 25000000000 400", "at 1e+11 bit/s"),  # another rate
        ("KMAX_MAP", "1 100000000000 -1", "Kmin <= Kmax"),
        ("PMAX_MAP", "1 100000000000 inf", "Pmax"),
        ("BUFFER_SIZE", "inf", "BUFFER_SIZE"),
        ("EWMA_GAIN", "nan", "EWMA_GAIN"),
        ("RATE_AI", "40", "RATE_AI"),
        ("LINK_DOWN", "0 inf 1", "LINK_DOWN"),
        ("SIMULATOR_STOP_TIME", "1.5", "SIMULATOR_STOP_TIME"),
        ("SIMULATOR_STOP_TIME", "inf", "SIMULATOR_STOP_TIME"),
    ],
)
def test_a_broken_config_is_told_by_its_key(exported, key, words, told):
    path = exported()
    lines = path.read_text().splitlines()
    assert any(line.split()[0] == key for line in lines)
    path.write_text("\n".join(f"{key} {words}" if x.split()[0] == key else x for x in lines))
    done = call("import", path, "--out", path.with_suffix(".yaml"))
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert told in done.stderr
    assert str(path) in done.stderr


def test_a_topology_of_more_nodes_than_can_be_numbered_is_refused():
    with pytest.raises(Malformed, match="9999999 nodes are more than"):
        parse_topology("9999999 1 1\n0\n0 1 1Gbps 1us 0\n")
