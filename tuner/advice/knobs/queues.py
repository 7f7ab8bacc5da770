"""Egress queues of switches: marking, scheduling, shaping."""

from __future__ import annotations

from typing import Final

from tuner.advice.knobs.knob import Home, Knob, at

_SAME: Final = "the queues of the same class on all ports of the same speed and tier"
_PFC: Final = "the PFC threshold of the ports that feed the queue: marks must come before pauses"
_EOS: Final = "uc-tx-queue N: random-detect ecn"
_NXOS: Final = "policy-map type queuing, class c-out-8q-qN: random-detect"
_SONIC: Final = "WRED_PROFILE of QUEUE|PORT|N"
_NVUE: Final = "qos congestion-control PROFILE traffic-class N"
_ONYX: Final = "traffic-class N congestion-control ecn"
_JUNOS: Final = "class-of-service drop-profiles"
_QUEUE: Final = ("queue",)


def _marking() -> tuple[Home, ...]:
    return at(eos=_EOS, nxos=_NXOS, sonic=_SONIC, nvue=_NVUE, onyx=_ONYX)


KNOBS: Final = (
    Knob(
        name="ecn_enabled",
        meaning="The egress queue marks ECN-capable packets instead of dropping.",
        unit="bool",
        on=_QUEUE,
        choices=(False, True),
        defaults=(("SONiC AZURE_LOSSLESS", True), ("Arista EOS", False), ("Cisco NX-OS", False)),
        homes=(
            *_marking(),
            Home("junos", "class-of-service schedulers: explicit-congestion-notification"),
        ),
        disruption="none; marking starts or stops at once",
        agrees="hosts: RoCE sent with ECT, np and rp on for its priority",
        setting="ecn_enabled",
    ),
    Knob(
        name="kmin_bytes",
        meaning="Queue depth at which marking begins.",
        unit="bytes",
        on=_QUEUE,
        low=0,
        high=1e9,
        defaults=(
            ("SONiC AZURE_LOSSLESS", 1_048_576),
            ("Cumulus qos roce", 150_000),
            ("Onyx roce", 150_000),
            ("Cisco AI blueprint", 150_000),
        ),
        homes=_marking(),
        disruption="none; marks move at once",
        agrees=f"{_SAME}; {_PFC}",
        setting="kmin_bytes",
    ),
    Knob(
        name="kmax_bytes",
        meaning="Queue depth at which marking reaches Pmax.",
        unit="bytes",
        on=_QUEUE,
        low=0,
        high=1e9,
        defaults=(
            ("SONiC AZURE_LOSSLESS", 2_097_152),
            ("Cumulus qos roce", 1_501_500),
            ("Onyx roce", 1_500_000),
            ("Cisco AI blueprint", 3_000_000),
        ),
        homes=_marking(),
        disruption="none; marks move at once",
        agrees=f"kmin_bytes of the queue, which is no larger; {_SAME}; {_PFC}",
        setting="kmax_bytes",
    ),
    Knob(
        name="pmax_ratio",
        meaning="Marking probability at Kmax.",
        unit="ratio",
        on=_QUEUE,
        low=0.01,
        high=1.0,
        defaults=(
            ("SONiC AZURE_LOSSLESS", 0.05),
            ("Cumulus qos roce", 1.0),
            ("Cisco AI blueprint", 0.07),
        ),
        homes=(
            *at(eos=_EOS, nxos=_NXOS, sonic=_SONIC, nvue=_NVUE),
            Home("junos", _JUNOS),
        ),
        disruption="none; marks move at once",
        agrees=_SAME,
        setting="pmax_ratio",
    ),
    Knob(
        name="kmin_fill_ratio",
        meaning="Fill of the queue's buffer at which marking begins.",
        unit="ratio",
        on=_QUEUE,
        low=0.0,
        high=1.0,
        defaults=(("Juniper JVD", 0.1), ("Juniper Apstra", 0.55)),
        homes=at(junos=_JUNOS),
        agrees=_SAME,
        setting="kmin_fill_ratio",
    ),
    Knob(
        name="kmax_fill_ratio",
        meaning="Fill of the queue's buffer at which marking reaches Pmax.",
        unit="ratio",
        on=_QUEUE,
        low=0.0,
        high=1.0,
        defaults=(("Juniper JVD", 0.5), ("Juniper Apstra", 0.9)),
        homes=at(junos=_JUNOS),
        agrees=f"kmin_fill_ratio of the queue, which is smaller; {_SAME}",
        setting="kmax_fill_ratio",
    ),
    Knob(
        name="ecn_average_weight",
        meaning="Exponent of the averaging of the queue depth; DCQCN needs 0, none.",
        unit="count",
        on=_QUEUE,
        low=0,
        high=15,
        defaults=(("Cisco AI blueprint", 0),),
        homes=at(eos=_EOS, nxos=_NXOS),
        agrees=_SAME,
        setting="ecn_average_weight",
    ),
    Knob(
        name="ecn_counting_enabled",
        meaning="The device counts the packets that the queue marks.",
        unit="bool",
        on=_QUEUE,
        choices=(False, True),
        defaults=(("Arista EOS", False),),
        homes=at(eos="uc-tx-queue N: random-detect ecn count"),
        disruption="none; on some chips it takes a counter resource",
        setting="ecn_counting_enabled",
    ),
    Knob(
        name="scheduler",
        meaning="How the queue is served: strict, dwrr or wrr.",
        on=_QUEUE,
        choices=("strict", "dwrr", "wrr"),
        defaults=(("SONiC", "dwrr"), ("Cumulus qos roce, CNP", "strict")),
        homes=at(
            eos="uc-tx-queue N: priority strict",
            nxos="policy-map type queuing: priority level 1",
            junos="class-of-service schedulers: priority strict-high",
            sonic="SCHEDULER of QUEUE|PORT|N",
            nvue="qos egress-scheduler PROFILE traffic-class N mode",
            onyx="traffic-class N dcb ets",
        ),
        disruption="shares of the queues change at once",
        agrees="the CNP queue is strict at every hop and in every NIC",
        setting="scheduler",
    ),
    Knob(
        name="scheduler_weight",
        meaning="Weight or percent of the queue.",
        unit="count",
        on=_QUEUE,
        low=0,
        high=100,
        homes=at(
            eos="uc-tx-queue N: bandwidth percent",
            nxos="policy-map type queuing: bandwidth remaining percent",
            junos="class-of-service schedulers: transmit-rate percent",
            sonic="SCHEDULER weight",
            nvue="qos egress-scheduler PROFILE traffic-class N bw-percent",
            onyx="traffic-class N dcb ets wrr",
        ),
        disruption="shares of the queues change at once",
        agrees=_SAME,
        setting="scheduler_weight",
    ),
    Knob(
        name="queue_rate_bps",
        meaning="Rate that the egress queue is shaped to.",
        unit="bps",
        on=_QUEUE,
        low=1,
        disruption="none beyond the change of rate",
        setting="queue_rate_bps",
        how="shape the egress of {place} to {value}",
        undo="shape it to {current} again",
    ),
    Knob(
        name="queue_limit_bytes",
        meaning="Most bytes that the egress queue holds.",
        unit="bytes",
        on=_QUEUE,
        low=1,
        disruption="a deeper queue adds delay: at most limit / rate",
        setting="queue_limit_bytes",
        how="let the egress queue of {place} hold {value}",
        undo="set it to {current} again",
    ),
)
