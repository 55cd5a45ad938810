"""A real Chromium for tests of the page: started once, and every page watched for errors and requests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@contextmanager
def start_browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A fresh profile in a folder of its own comes with every launch.
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, path: Path, *, width: int = 1200, height: int = 900, **options: Any):
    """Open the file in a page; afterwards, check that it had no error and made no request."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (complaints.append("a dialog"), dialog.dismiss()))
    page.on(
        "request",
        lambda request: request.url == path.as_uri() or complaints.append(f"request {request.url}"),
    )
    page.goto(path.as_uri())
    yield page
    context.close()
    assert complaints == []
