"""Names of settings and attributes of switches.

Tuples have a place for every priority (8), traffic class (8) or DSCP (64); -1 is `not set`.
"""

from typing import Final

from collectors.model.catalogue.named import Named

SETTINGS: Final = (
    # marking, per egress queue (kmin_bytes, kmax_bytes, pmax_ratio, ecn_enabled: settings.py)
    Named("kmin_fill_ratio", "ratio", "Fill of the queue's buffer at which marking begins."),
    Named("kmax_fill_ratio", "ratio", "Fill of the queue's buffer at which marking reaches Pmax."),
    Named("ecn_average_weight", "count", "Exponent of the averaging of the queue; 0: none."),
    Named("ecn_counting_enabled", "bool", "The device counts marked packets of the queue."),
    Named("wred_profile", "", "Name of the marking profile of the queue."),
    # flow control, per interface
    Named("pfc_priorities", "bool", "PFC is on for the priority.", "priority"),
    Named("pfc_mode", "", "on, auto (as DCBX agrees) or off."),
    Named("pfc_watchdog_enabled", "bool", "A watchdog ends pauses that last too long."),
    Named("pfc_watchdog_detection_seconds", "seconds", "Pause after which the watchdog acts."),
    Named("pfc_watchdog_restoration_seconds", "seconds", "Quiet after which it lets go."),
    Named("pfc_watchdog_poll_seconds", "seconds", "How often the watchdog looks."),
    Named("pfc_watchdog_action", "", "drop, forward, alert or shutdown."),
    Named("pfc_cable_length_metres", "count", "Cable length that headroom is computed from."),
    # ingress buffers, per priority group
    Named("xoff_bytes", "bytes", "Headroom: what still fits after the peer is told to stop."),
    Named("xon_bytes", "bytes", "Fill below which the peer may go on."),
    Named("xon_offset_bytes", "bytes", "Distance below the stop threshold at which it may go on."),
    Named("pause_threshold_bytes", "bytes", "Static fill at which the peer is told to stop."),
    Named("resume_threshold_bytes", "bytes", "Static fill at which the peer may go on."),
    Named("buffer_alpha", "ratio", "Share of the free shared buffer that it may use."),
    Named("buffer_alpha_exponent", "count", "Same as an exponent: alpha = 2^n."),
    Named("reserved_buffer_bytes", "bytes", "Buffer that is its own."),
    Named("pool_size_bytes", "bytes", "Size of the shared buffer pool."),
    Named("pool_share_ratio", "ratio", "Share of the chip's buffer that the pool has."),
    Named("pool_mode", "", "static or dynamic."),
    Named("pool_xoff_bytes", "bytes", "Headroom that priority groups share."),
    # classification
    Named("trust", "", "Field that the traffic class comes from: dscp, pcp, both, port."),
    Named("dscp_to_traffic_class", "count", "Traffic class of each DSCP.", "dscp"),
    Named("pcp_to_traffic_class", "count", "Traffic class of each 802.1p priority.", "priority"),
    Named("traffic_class_to_queue", "count", "Egress queue of each class.", "traffic class"),
    Named("traffic_class_to_group", "count", "Priority group of each class.", "traffic class"),
    Named("priority_to_queue", "count", "Queue that PFC of a priority stops.", "priority"),
    # scheduling, per egress queue
    Named("scheduler", "", "strict, dwrr or wrr."),
    Named("scheduler_weight", "count", "Weight or percent of the queue."),
    # load balancing, per switch
    Named("ecmp_hash_fields", "", "Header fields that the ECMP hash sees."),
    Named("ecmp_hash_seed", "count", "Seed of the ECMP hash."),
    Named("ecmp_hash_algorithm", "", "CRC, XOR... as the device names it."),
    Named("ecmp_hash_offset", "count", "Rotation or shift of the hash."),
    Named("ecmp_hash_rdma_qp", "bool", "The hash sees the destination queue pair."),
    Named("load_balancing", "", "static, flowlet, per_packet or adaptive."),
    Named("flowlet_gap_seconds", "seconds", "Pause after which a flow may take another path."),
    Named("fec", "", "Forward error correction: rs, fc, none or auto."),
    Named("admin_enabled", "bool", "The interface is switched on."),
)
ATTRIBUTES: Final = (
    Named("system_name", "", "Name that the switch gives itself."),
    Named("chassis_id", "", "LLDP chassis id, usually the base MAC address."),
    Named("software", "", "Software image and version as the switch states it."),
    Named("config_language", "", "Language of the configuration: eos, nxos, junos, sonic..."),
    Named("platform", "", "Hardware or software family of the switch."),
    Named("alias", "", "Description or second name of the interface."),
    Named("lag", "", "Aggregate that the interface is a member of."),
    Named("marking_profile", "", "Profile that the interface takes its marking from."),
    Named("scheduler_profile", "", "Profile that the interface takes its queues from."),
    Named("pfc_profile", "", "Profile that the interface or switch takes its PFC from."),
    Named("buffer_profile", "", "Profile that the interface takes its ingress buffers from."),
    Named("classifier_profile", "", "Profile that the interface takes its classes from."),
    Named("image_quirk", "", "What is known to be wrong in the counters of this software."),
    Named("counter_quirk", "", "What the other ends of its links say is wrong in its counters."),
)
