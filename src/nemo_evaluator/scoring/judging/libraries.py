"""Changes to the libraries that tests use, made in the judge before it runs them."""

from __future__ import annotations

import sys

from .proxies import Remote

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any

    from .counting import AssertionCounts


def prepare_libraries(tally: AssertionCounts, mentioned: list[str]) -> None:
    """Make the libraries that the tests mention report to the tally."""
    if "pytest" in mentioned:
        from .pytest_standin import make_module  # noqa: PLC0415 - few tests need it

        sys.modules["pytest"] = make_module(tally)
    if "unittest" in mentioned:
        _prepare_unittest(tally)
    if "suppress" in mentioned:
        import contextlib  # noqa: PLC0415

        from .expecting import patch_contexts  # noqa: PLC0415

        patch_contexts(tally, contextlib.suppress, counts=False)
    if "asyncio" in mentioned:
        _prepare_asyncio()


def _prepare_unittest(tally: AssertionCounts) -> None:
    import unittest  # noqa: PLC0415 - only tests that use it pay for it
    import unittest.case  # noqa: PLC0415

    from .expecting import patch_contexts  # noqa: PLC0415

    patch_contexts(tally, unittest.case._AssertRaisesContext, counts=True)
    # Test cases are collected and run anyway.
    library: Any = unittest
    library.main = lambda *args, **options: None


def _prepare_asyncio() -> None:
    import asyncio  # noqa: PLC0415 - only tests that use it pay for it

    run = asyncio.run

    async def result(awaitable: Any) -> Any:
        return await awaitable

    def run_any(main: Any, **options: Any) -> Any:
        """``asyncio.run`` that also takes a coroutine of the program."""
        return run(result(main) if isinstance(main, Remote) else main, **options)

    asyncio.run = run_any
