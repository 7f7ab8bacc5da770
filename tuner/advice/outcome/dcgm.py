"""A scrape of dcgm-exporter: how many GPUs there are and how busy they are.

DCGM_FI_PROF_SM_ACTIVE (ratio), else DCGM_FI_DEV_GPU_UTIL (percent). A GPU that is idle within a
step waits for data, other ranks or the network, so idle time is an upper bound of the share of
communication.
"""

from __future__ import annotations

from collectors.model.errors import Malformed
from tuner.advice.outcome.measured import Measured

_BUSY = (("DCGM_FI_PROF_SM_ACTIVE", 1.0), ("DCGM_FI_DEV_GPU_UTIL", 0.01))
_FAMILIES = ("DCGM_FI_",)


def looks_like(text: str) -> bool:
    """Tell whether a text is such a scrape."""
    return any(family in text for family in _FAMILIES)


def parse(text: str, where: str) -> Measured:
    """Return the number of GPUs and the share of time that they idle.

    Raises Malformed for a text that is no exposition.
    """
    from prometheus_client.parser import text_string_to_metric_families

    gpus: set[tuple[str, str]] = set()
    busy: dict[str, list[float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                gpu = sample.labels.get("UUID") or sample.labels.get("gpu", "")
                gpus.add((sample.labels.get("Hostname", ""), gpu))
                busy.setdefault(sample.name, []).append(sample.value)
    except ValueError as error:
        why = f"it is no Prometheus exposition ({error})"
        raise Malformed(where, "read DCGM scrape", why) from None
    share = None
    for name, scale in _BUSY:
        values = busy.get(name)
        if values:
            share = min(max(1 - sum(values) / len(values) * scale, 0.0), 1.0)
            break
    if share is None:
        why = f"it holds neither {_BUSY[0][0]} nor {_BUSY[1][0]}"
        raise Malformed(where, "read DCGM scrape", why)
    return Measured(
        len(gpus) or None,
        communication_ratio=share,
        communication_is_bound=True,
        sources=(f"{where}: DCGM",),
    )
