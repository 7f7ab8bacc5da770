"""One boot of the Soft-RoCE lab serves all its tests: booting is what costs."""

import pytest

from simlab.rxe.lab import Lab
from simlab.rxe.machine import why_not


@pytest.fixture(scope="session")
def lab():
    reason = why_not()
    if reason is not None:
        pytest.skip(f"Soft-RoCE lab: {reason}")
    with Lab(4) as running:
        yield running
