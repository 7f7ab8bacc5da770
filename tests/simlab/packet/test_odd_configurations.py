"""Whatever numbers a configuration holds: it runs, or it is refused by one of our errors."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.dcqcn import DcqcnParameters
from collectors.model.errors import FabricError
from simlab.packet.config import plan_of
from simlab.packet.parameters import (
    Balancing,
    CongestionControl,
    HostModel,
    InfinibandLink,
    SwitchModel,
    Transport,
)
from simlab.packet.running import finish, start

SMALL = st.integers(-2, 5)
NUMBER = st.sampled_from([-1, 0, 1, 2, 7, 100, 4096, 70_000, 0.5, 1e-6, 1e12, float("inf")])
TOPOLOGIES = st.one_of(
    st.fixed_dictionaries({"kind": st.just("star"), "hosts": SMALL}),
    st.fixed_dictionaries(
        {"kind": st.just("leaf_spine"), "leaves": SMALL, "spines": SMALL, "hosts_per_leaf": SMALL},
        optional={"parallel": SMALL, "delay_s": NUMBER, "rate_bps": NUMBER},
    ),
    st.fixed_dictionaries(
        {"kind": st.just("fat_tree"), "ports": SMALL}, optional={"hosts_per_leaf": SMALL}
    ),
    st.fixed_dictionaries(
        {"kind": st.just("rail_optimised"), "hosts": SMALL, "rails": SMALL, "spines": SMALL},
        optional={"hosts_per_block": SMALL},
    ),
)
WORKLOADS = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("incast"), "receiver": SMALL, "size_bytes": NUMBER},
        optional={"senders": st.lists(SMALL, max_size=3), "qps": SMALL, "gap_s": NUMBER},
    ),
    st.fixed_dictionaries(
        {"kind": st.just("permutation"), "size_bytes": NUMBER},
        optional={"qps": SMALL, "shift": SMALL},
    ),
    st.fixed_dictionaries(
        {"kind": st.just("poisson"), "load": NUMBER, "duration_s": st.sampled_from([-1, 0, 1e-6])},
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("collective"),
            "operation": st.sampled_from(
                ["all_reduce", "tree_all_reduce", "hierarchical_all_reduce", "all_to_all"]
            ),
            "size_bytes": NUMBER,
        },
        optional={
            "ranks": st.lists(SMALL, max_size=4), "channels": SMALL, "qps": SMALL, "rails": SMALL,
            "iterations": SMALL, "chunks": SMALL, "window": SMALL, "compute_s": NUMBER,
            "nvlink_bps": NUMBER, "mode": st.sampled_from(["split", "round_robin"]),
        },
    ),
)  # fmt: skip


def numbers_of(kind: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Return mappings of some numeric fields of a record to odd numbers."""
    names = [one.name for one in fields(kind) if str(one.type).split(" |")[0] in ("int", "float")]
    return st.dictionaries(st.sampled_from(names), NUMBER, max_size=3)


MODELS = st.fixed_dictionaries(
    {},
    optional={
        "transport": numbers_of(Transport), "switch": numbers_of(SwitchModel),
        "host": numbers_of(HostModel), "infiniband": numbers_of(InfinibandLink),
        "balancing": numbers_of(Balancing),
        "ports": st.dictionaries(SMALL, st.just({"pfc": False})),
        "congestion": st.one_of(
            numbers_of(CongestionControl),
            st.fixed_dictionaries({"dcqcn": numbers_of(DcqcnParameters)}),
        ),
    },
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(topology=TOPOLOGIES, workload=WORKLOADS, model=MODELS)
def test_odd_numbers_are_simulated_or_refused(topology, workload, model):
    data = {"duration_s": 2e-6, "topology": topology, "workload": workload, "model": model}
    refused = ""
    try:
        plan = plan_of(data, "odd.yaml", Path())
        finish(plan, start(plan))
    except FabricError as error:
        refused = str(error)
    assert "\n" not in refused
