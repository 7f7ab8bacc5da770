"""What tests of all collectors share: this host's clock, and what a pass has read and not read."""

import time

from collectors.model.reading import Instant


def clock():
    return Instant(time.time_ns(), time.monotonic_ns())


def values(result):
    """Return {(entity text, metric): value in the metric's unit}."""
    return {
        (str(reading.entity), column.metric): column.to_unit(value)
        for reading in result.readings
        for column, value in reading.values.items()
    }


def series(result):
    """Return the values that were pushed, without those that a receiver adds for the target."""
    return {key: value for key, value in values(result).items() if "fabric_target" not in key[1]}


def reasons(result):
    return {(gap.what, gap.reason) for gap in result.gaps}
