"""Settings read by runs are those that parsing the whole text gives, or the same error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.entities import Device, Netdev, Port
from collectors.model.errors import Malformed
from collectors.model.facts import Attribute, Facts, Setting
from collectors.model.sheets import Sheets, runs_of
from collectors.wire import facts as wire
from tests.collectors import strategies as some

NETDEVS = [Netdev("h1", f"eth{n}") for n in range(3)]
PORT = Port(Device("h1", "0002c90300a1b2c3", "mlx5_0"), 1)
VALUES = [1500, 9000, 0.5, True, "dscp", (False,) * 3, (1, 2)]
alike = st.lists(
    st.builds(
        Setting,
        st.sampled_from([*NETDEVS, PORT]),
        st.sampled_from(["mtu_bytes", "trust"]),
        st.sampled_from(VALUES),
        st.sampled_from(["DCB", "/sys"]),
        st.sampled_from(["running", "next_boot"]),
    ),
    max_size=12,
)


def outcome(data):
    try:
        return wire.parse_facts(data)
    except Malformed as error:
        return str(error)


def whole(data, monkeypatch):
    """Parse without reading by runs."""
    with monkeypatch.context() as patch:
        patch.setattr(wire, "parse_runs", lambda _: None)
        return outcome(data)


@given(alike)
def test_settings_come_back_in_order_and_of_their_type(rows):
    facts = Facts(tuple(rows), (Attribute(PORT, "driver", "mlx5"),))
    found = wire.parse_facts(wire.pack_facts(facts))
    assert isinstance(found.settings, Sheets)
    assert (found, hash(found)) == (facts, hash(facts))
    assert [type(s.value) for s in found.settings] == [type(s.value) for s in rows]
    assert len(found.settings) == len(rows)
    assert wire.pack_facts(found) == wire.pack_facts(facts)


@settings(max_examples=200)
@given(rows=alike, cut=st.integers(0, 400), drop=st.integers(0, 30), add=st.binary(max_size=3))
def test_a_broken_text_is_refused_as_the_whole_parser_refuses_it(rows, cut, drop, add):
    data = wire.pack_facts(Facts(tuple(rows)))
    broken = data[:cut] + add + data[cut + drop :]
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert outcome(broken) == whole(broken, monkeypatch)


@given(some.facts)
def test_any_facts_are_the_same_either_way(facts):
    data = wire.pack_facts(facts)
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert outcome(data) == whole(data, monkeypatch) == facts


@pytest.mark.parametrize(
    "text",
    [
        '{"entity":["netdev/h1/e"],"name":"a","value":1,"where":"","applies":"running","name":"b"}',
        '{"entity":["netdev/h1/e","a","b"],"name":"a","value":1,"where":"","applies":"running"}',
        '{"entity":[],"name":"a","value":1,"where":"","applies":"running"}',
        '{"entity":["nothing"],"name":"a","value":1,"where":"","applies":"running"}',
        '{"entity":["netdev/h1/e"],"name":"a","value":[[1]],"where":"","applies":"running"}',
        '{"entity":["netdev/h1/e"],"name":"a","value":1,"where":"\\"","applies":"running"}',
        '{"entity":["netdev/h1/e"],"name":"a","value":1,"where":"","applies":"running"},',
        ',{"entity":["netdev/h1/e"],"name":"a","value":1,"where":"","applies":"running"}',
        '{"name":"a","entity":["netdev/h1/e"],"value":1,"where":"","applies":"running"}',
    ],
)
def test_texts_that_we_do_not_write(text, monkeypatch):
    rest = '"gids":[],"neighbours":[],"queue_pairs":[],"gaps":[],"versions":[]}'
    data = f'{{"version":1,"settings":[{text}],"attributes":[],{rest}'.encode()
    assert outcome(data) == whole(data, monkeypatch)


def test_entities_that_are_set_alike_share_one_sheet():
    rows = [Setting(n, *row) for n in NETDEVS for row in (("mtu_bytes", 9000), ("trust", "dscp"))]
    runs = runs_of(wire.parse_facts(wire.pack_facts(Facts(tuple(rows)))).settings)
    assert [entity for entity, _ in runs] == NETDEVS
    assert len({id(sheet) for _, sheet in runs}) == 1
    assert [len(sheet.rows) for _, sheet in runs_of(rows)] == [2, 2, 2]
