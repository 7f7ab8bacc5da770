"""All metrics of the product, by name and by what exposes them.

To add a counter, add one row to a file beside this one. To add a file of rows, add it to
`_FILES`.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from collectors.model.catalogue import (
    burst,
    cm,
    ethernet,
    infiniband,
    interface,
    ip,
    pci,
    rdma,
    rdma_errors,
    rdma_work,
    switch,
)
from collectors.model.metric import Column, Metric, Via

_FILES: Final = (
    rdma,
    rdma_work,
    rdma_errors,
    ip,
    interface,
    ethernet,
    pci,
    cm,
    burst,
    infiniband,
    switch,
)


def _by_name() -> Mapping[str, Metric]:
    rows: dict[str, Metric] = {}
    for file in _FILES:
        for metric in file.METRICS:
            if rows.setdefault(metric.name, metric) is not metric:
                raise ValueError(f"{metric.name} stands twice in the catalogue")
    return MappingProxyType(rows)


CATALOGUE: Final[Mapping[str, Metric]] = _by_name()


@cache
def columns(via: Via, driver: str = "*") -> Mapping[str, Column]:
    """Return key -> column of everything that this kind of source exposes for a driver.

    A row for the driver itself beats a row for any driver.
    """
    found: dict[str, Column] = {}
    for wanted in ("*", driver):
        for metric in CATALOGUE.values():
            for source in metric.sources:
                if source.via == via and source.driver == wanted:
                    found[source.key] = metric.column(source)
    return MappingProxyType(found)
