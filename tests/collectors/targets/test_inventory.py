"""The inventory: typed, errors with file and path, secrets by reference only."""

import pytest

from collectors.model.errors import ConfigInvalid
from collectors.targets.inventory import parse_inventory

GOOD = """
interval: 10
groups: {pod1: 30}
credentials:
  lab: {community_env: LAB_COMMUNITY}
targets:
  - {name: leaf1, address: 10.0.0.1, platform: eos, snmp: {credentials: lab}}
  - {name: leaf2, address: 10.0.0.2, platform: sonic, group: pod1, sonic_db: {}}
  - {name: leaf3, address: 10.0.0.3, platform: nvue, interval: 5, group: pod1, config: x.yaml}
"""


def test_intervals():
    inventory = parse_inventory(GOOD, "t.yaml")
    assert [inventory.interval_of(target) for target in inventory.targets] == [10, 30, 5]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("platform: eos", "platform: ios"), "t.yaml: $.targets[0].platform"),
        (("credentials: lab}}", "credentials: gone}}"), "no credentials 'gone'"),
        (("name: leaf2", "name: leaf1"), "'leaf1' stands twice"),
        (("snmp: {credentials: lab}", "snmp: {credentials: lab, retries: 3}"), "retries"),
        (("{community_env: LAB_COMMUNITY}", "{community: hello}"), "community"),
        (
            ("sonic_db: {}", "exclude: ['(']"),
            "needs one of snmp, gnmi, sonic_db, config, api, pushes",
        ),
        (("group: pod1, sonic_db", "group: pod9, sonic_db"), "no group 'pod9'"),
        (("targets:", "targets: ["), "t.yaml:"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(change, why):
    with pytest.raises(ConfigInvalid) as caught:
        parse_inventory(GOOD.replace(*change), "t.yaml")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
