"""A model written as a config file of the reference simulator reads back as it was."""

from dataclasses import replace

import pytest

from collectors.model.dcqcn import profile
from collectors.model.ecn import EcnThresholds
from simlab.packet.hpcc_files import format_config, parse_config
from simlab.packet.parameters import CongestionControl, EcnAt, Form, Model, SwitchModel


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
