"""All metrics of the product, by name and by what exposes them.

To add a counter, add one row to a file beside this one. To add a file of rows, add it to
`_FILES`.
"""

from collections.abc import Iterator, Mapping
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
from collectors.model.metric import Column, Metric, Source, Via

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


def sources_of(via: Via, *drivers: str) -> Iterator[tuple[Metric, Source]]:
    """Yield every source of a kind with the metric that it gives, in the order of the catalogue.

    drivers: those of the first come first; without any, of all.
    """
    rows = CATALOGUE.values()
    of_kind = [(row, source) for row in rows for source in row.sources if source.via == via]
    if not drivers:
        yield from of_kind
    for driver in drivers:
        yield from ((row, source) for row, source in of_kind if source.driver == driver)


@cache
def columns(via: Via, driver: str = "*") -> Mapping[str, Column]:
    """Return key -> column of everything that this kind of source exposes for a driver.

    A row for the driver itself beats a row for any driver.
    """
    return MappingProxyType(
        {source.key: metric.column(source) for metric, source in sources_of(via, "*", driver)}
    )
