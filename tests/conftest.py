"""In CI a lab that is skipped is a lab that failed."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# A busy machine is no failure: no test here is about the time one example takes.
settings.register_profile("project", deadline=None)
settings.load_profile("project")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    is_lab = any(mark.name.startswith("lab_") for mark in item.iter_markers())
    if os.environ.get("CI") and is_lab and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"labs may not be skipped in CI: {call.excinfo}"
    return report
