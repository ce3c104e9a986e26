"""What tests do with a page in a browser."""

from __future__ import annotations

from typing import Any


def title(page: Any) -> str:
    return str(page.inner_text("#decision-title"))


def settle(page: Any) -> None:
    """Waits until two frames are drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")


def until(page: Any, condition: str) -> None:
    """Waits until that holds. The page's policy forbids playwright's own waiting, which evaluates text in the page."""
    for _ in range(500):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(10)
    raise AssertionError(f"never true: {condition}")


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
        settle(page)
