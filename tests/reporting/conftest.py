"""One report on real data and one browser for all tests of the page."""

from __future__ import annotations

import json

import pytest
from browser import EXECUTABLE, start_browser
from demo_report import demo_summary

from eastward.reporting import write_report


@pytest.fixture(scope="session")
def summary():
    """A real report; read back from JSON, as the command line does it."""
    return json.loads(json.dumps(demo_summary(n_splits=3, max_epochs=12)))


@pytest.fixture(scope="session")
def report_path(summary, tmp_path_factory):
    return write_report(summary, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="session")
def browser():
    pytest.importorskip("playwright", reason="the page is tested with Playwright")
    if EXECUTABLE is None:
        pytest.skip(
            "no chromium on this machine: install it to test the page (apt install chromium)"
        )
    with start_browser() as started:
        yield started
