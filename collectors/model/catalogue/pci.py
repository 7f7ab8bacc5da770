"""PCIe errors of RDMA devices as the kernel's AER driver counts them (sysfs aer_dev_*)."""

from typing import Final

from collectors.model.metric import Metric, Source, counter

AER_CORRECTABLE = counter(
    "fabric_pcie_correctable_errors_total",
    "errors",
    "PCIe errors that hardware corrected: a link that needs many retries.",
    Source("pci", "aer_dev_correctable"),
    on="device",
)
AER_NONFATAL = counter(
    "fabric_pcie_nonfatal_errors_total",
    "errors",
    "PCIe errors that lost a transaction.",
    Source("pci", "aer_dev_nonfatal"),
    on="device",
)
AER_FATAL = counter(
    "fabric_pcie_fatal_errors_total",
    "errors",
    "PCIe errors after which the link was not reliable.",
    Source("pci", "aer_dev_fatal"),
    on="device",
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))
