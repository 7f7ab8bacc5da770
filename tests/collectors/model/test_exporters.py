import pytest

from collectors.model.catalogue.exporters import entity_of, known_names, series_of
from collectors.model.entities import Device, Host, Interface, Netdev, Port, Slot, Switch

NODE = "gpu7:9100"
PORT = Port(Device("gpu7", "mlx5_0"), 1)
LEAF = Switch("leaf1")

CASES = {
    "node_exporter keeps the names of node_infiniband": (
        {"__name__": "node_infiniband_port_data_received_bytes_total", "instance": NODE,
         "device": "mlx5_0", "port": "1"},
        "node_infiniband_port_data_received_bytes_total", PORT, 1,
    ),
    "the network interface is called device there": (
        {"__name__": "node_network_receive_bytes_total", "instance": NODE, "device": "eth4"},
        "fabric_interface_rx_bytes_total", Netdev("gpu7", "eth4"), 1,
    ),
    "speed is in bytes a second there": (
        {"__name__": "node_network_speed_bytes", "instance": NODE, "device": "eth4"},
        "fabric_interface_speed_bps", Netdev("gpu7", "eth4"), 8,
    ),
    "ethtool tells the priority in the name": (
        {"__name__": "node_ethtool_received_prio3_pause", "instance": NODE, "device": "eth4"},
        "fabric_pfc_rx_frames_total", Slot(Netdev("gpu7", "eth4"), "priority", 3), 1,
    ),
    "and microseconds": (
        {"__name__": "node_ethtool_transmitted_prio3_pause_duration", "instance": NODE,
         "device": "eth4"},
        "fabric_pfc_tx_pause_seconds_total", Slot(Netdev("gpu7", "eth4"), "priority", 3), 1e-6,
    ),
    "rdma_exporter serves raw double words": (
        {"__name__": "rdma_port_rcv_data_total", "instance": NODE, "device": "mlx5_0", "port": "1"},
        "node_infiniband_port_data_received_bytes_total", PORT, 4,
    ),
    "rdma_exporter tells direction and priority by labels": (
        {"__name__": "rdma_roce_pfc_pause_duration_total", "instance": NODE, "device": "mlx5_0",
         "port": "1", "netdev": "eth4", "direction": "tx", "priority": "5"},
        "fabric_pfc_tx_pause_seconds_total", Slot(Netdev("gpu7", "eth4"), "priority", 5), 1e-6,
    ),
    "gnmic names the switch in source and keys in labels": (
        {"__name__": "interfaces_interface_state_counters_in_octets", "instance": "gnmic:9804",
         "source": "leaf1:6030", "interface_name": "Ethernet1/1"},
        "fabric_interface_rx_bytes_total", Interface(LEAF, "Ethernet1/1"), 1,
    ),
    "gnmic queue": (
        {"__name__": "qos_interfaces_interface_output_queues_queue_state_ecn_marked_pkts",
         "source": "leaf1", "interface_interface_id": "Ethernet8", "queue_name": "UC3"},
        "fabric_queue_ecn_marked_packets_total", Slot(Interface(LEAF, "Ethernet8"), "queue", 3), 1,
    ),
    "snmp_exporter": (
        {"__name__": "ifHCOutOctets", "instance": "leaf1", "ifIndex": "7", "ifName": "Eth1/7"},
        "fabric_interface_tx_bytes_total", Interface(LEAF, "Eth1/7"), 1,
    ),
    "snmp_exporter with the index of a priority": (
        {"__name__": "cpfcIfPriorityRequests", "instance": "leaf1:161", "ifName": "Eth1/7",
         "cpfcIfPriorityValue": "3"},
        "fabric_pfc_tx_frames_total", Slot(Interface(LEAF, "Eth1/7"), "priority", 3), 1,
    ),
    "our own slots": (
        {"__name__": "fabric_queue_ecn_marked_packets_total", "instance": "poller",
         "switch": "leaf1", "interface": "Ethernet8", "queue": "3"},
        "fabric_queue_ecn_marked_packets_total", Slot(Interface(LEAF, "Ethernet8"), "queue", 3), 1,
    ),
    "our own host label wins over the scrape's instance": (
        {"__name__": "node_infiniband_state_id", "instance": "poller:9836", "host": "gpu7",
         "device": "mlx5_0", "port": "1"},
        "node_infiniband_state_id", PORT, 1,
    ),
    "a whole host": (
        {"__name__": "node_netstat_IpExt_InCEPkts", "instance": "[fd00::7]:9100"},
        "fabric_ip_ecn_ce_rx_packets_total", Host("fd00::7"), 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_names_of_exporters(case):
    labels, metric, entity, scale = CASES[case]
    series = series_of(labels)
    assert series is not None
    assert series.metric.name == metric
    assert float(series.scale) == scale
    assert entity_of(series, labels) == entity
    assert labels["__name__"] in known_names()


@pytest.mark.parametrize(
    "labels",
    [
        {"__name__": "node_infiniband_state_id", "instance": NODE, "device": "mlx5_0"},
        {"__name__": "node_infiniband_state_id", "device": "mlx5_0", "port": "1"},
        {"__name__": "ifHCOutOctets", "instance": "leaf1", "ifIndex": "7"},
        {"__name__": "node_network_receive_bytes_total", "instance": NODE},
        {"__name__": "fabric_pfc_rx_frames_total", "instance": NODE, "netdev": "eth0",
         "priority": "x"},
    ],
)  # fmt: skip
def test_labels_that_do_not_tell_whom(labels):
    series = series_of(labels)
    assert series is not None
    assert entity_of(series, labels) is None


def test_unknown_names():
    assert series_of({"__name__": "go_goroutines"}) is None
    assert series_of({"__name__": "rdma_roce_pfc_pause_frames_total", "direction": "up"}) is None
    assert series_of({}) is None
