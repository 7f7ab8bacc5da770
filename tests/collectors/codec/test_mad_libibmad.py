"""libibmad reads the MAD tables as ours do."""

import ctypes
import os

import pytest

from collectors.codec import mad_cc, mad_perf, mad_sa, mad_smp, mad_vendor

pytestmark = pytest.mark.lab_ib

TABLES = (mad_smp, mad_perf, mad_cc, mad_sa, mad_vendor)
LAYOUTS = {layout.name: layout for table in TABLES for layout in table.LAYOUTS}
# our layout -> name of its first field in libibmad, and how many of that name come before it
ORACLE = {
    "NodeInfo": ("BaseVers", 0),
    "SwitchInfo": ("LinearFdbCap", 0),
    "PortCounters": ("SymbolErrorCounter", 0),
    "PortRcvErrorDetails": ("PortLocalPhysicalErrors", 0),
    "PortXmitDiscardDetails": ("PortInactiveDiscards", 0),
    "PortOpRcvCounters": ("PortOpRcvPkts", 0),
    "PortFlowCtlCounters": ("PortXmitFlowPkts", 0),
    "PortVLOpPackets": ("PortVLOpPackets0", 0),
    "PortVLOpData": ("PortVLOpData0", 0),
    "PortVLXmitFlowCtlUpdateErrors": ("PortVLXmitFlowCtlUpdateErrors0", 0),
    "PortVLXmitWaitCounters": ("PortVLXmitWait0", 0),
    "SwPortVLCongestion": ("SWPortVLCongestion0", 0),
    "PortRcvConCtrl": ("PortPktRcvFECN", 0),
    "PortSLRcvFECN": ("PortSLRcvFECN0", 0),
    "PortSLRcvBECN": ("PortSLRcvBECN0", 0),
    "PortXmitConCtrl": ("PortXmitTimeCong", 0),
    "PortVLXmitTimeCong": ("PortVLXmitTimeCong0", 0),
    "PortXmitDataSL": ("XmtDataSL0", 0),
    "PortRcvDataSL": ("RcvDataSL0", 0),
    "PortSamplesControl": ("OpCode", 0),
    "SMInfo": ("SmInfoGuid", 0),
    "CongestionInfo": ("CongestionInfo", 0),
    "SwitchCongestionSetting": ("Control_Map", 0),
    "PortInfoExtended": ("CapMask", 1),
    "MellanoxExtendedPortInfo": ("StateChangeEnable", 0),
}

ELSEWHERE = {
    "QP1Dropped",
    "HDRFECModeSupported",
    "HDRFECModeEnabled",
    "NDRFECModeSupported",
    "NDRFECModeEnabled",
}


@pytest.fixture(scope="module")
def libibmad():
    try:
        library = ctypes.CDLL("libibmad.so.5")
    except OSError:
        pytest.skip("libibmad5 is not installed")
    library.mad_field_name.restype = ctypes.c_char_p
    names = []
    for index in range(1, 900):
        name = library.mad_field_name(index)
        if name and name[:3] == b"HDR" and b"Enabled" in name:
            names.append(name.decode())
            break
        names.append(name.decode() if name else "")
    return library, ["", *names]


def scalars_of(layout, payload, skip):
    values = layout.parse(payload)
    flat = []
    for field in layout.fields[skip:]:
        value = values[field.name]
        flat += value if isinstance(value, tuple) else [value]
    return flat


@pytest.mark.parametrize("name", ORACLE)
def test_libibmad_reads_the_same(libibmad, name):
    library, names = libibmad
    layout = LAYOUTS[name]
    first, before = ORACLE[name]
    index = [i for i, n in enumerate(names) if n == first][before]
    skip = 2 if layout.names[:2] == ("PortSelect", "CounterSelect") else 0
    rows = [(f.width, f.raw, f.name) for f in layout.fields[skip:] for _ in range(f.count)]
    for _ in range(20):
        payload = os.urandom(layout.size)
        ours = scalars_of(layout, payload, skip)
        at = index
        for (width, raw, field), value in zip(rows, ours, strict=True):
            if field in ELSEWHERE:  # appended to libibmad's list later
                continue
            buffer = (ctypes.c_uint8 * 512)(*payload)
            out = (ctypes.c_uint8 * 512)()
            library.mad_decode_field(buffer, at, out)
            if raw:
                theirs = bytes(out[: width // 8])
            else:
                theirs = int.from_bytes(bytes(out[: 8 if width > 32 else 4]), "little")
            assert theirs == value, (field, names[at])
            at += 1


def test_libibmad_reads_the_same_port_info(libibmad):
    library, names = libibmad
    layout = mad_smp.PORT_INFO
    start = names.index("Mkey")
    rows = [f for f in layout.fields if "Ext" not in f.name and f.name != "CapabilityMask2"]
    more = ["CapabilityMask2", "LinkSpeedExtActive", "LinkSpeedExtSupported", "LinkSpeedExtEnabled"]
    second = names.index("LinkSpeedExtActive") - 1
    places = {f.name: start + i for i, f in enumerate(rows)}
    places |= {name: second + i for i, name in enumerate(more)}
    assert names[places["LinkRoundTripLatency"]] == "RoundTrip"
    for _ in range(20):
        payload = os.urandom(64)
        ours = layout.parse(payload)
        for name, index in places.items():
            buffer, out = (ctypes.c_uint8 * 128)(*payload), (ctypes.c_uint8 * 64)()
            library.mad_decode_field(buffer, index, out)
            wide = next(f for f in layout.fields if f.name == name).width > 32
            theirs = int.from_bytes(bytes(out[: 8 if wide else 4]), "little")
            assert theirs == ours[name], (name, names[index])


def test_libibmad_reads_the_same_extended_counters(libibmad):
    library, names = libibmad
    layout = mad_perf.PORT_COUNTERS_EXTENDED
    base = names.index("PortUnicastXmitPkts") - 4
    first = [i for i, n in enumerate(names) if n == "SymbolErrorCounter"][1]
    places = {name: base + i for i, name in enumerate(layout.names[3:11])}
    places |= {name: first + i for i, name in enumerate(layout.names[11:])}
    for _ in range(20):
        payload = os.urandom(192)
        ours = layout.parse(payload)
        for name, index in places.items():
            assert names[index] == name
            buffer, out = (ctypes.c_uint8 * 256)(*payload), (ctypes.c_uint8 * 64)()
            library.mad_decode_field(buffer, index, out)
            assert int.from_bytes(bytes(out[:8]), "little") == ours[name], name
