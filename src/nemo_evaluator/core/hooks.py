"""Functions that a package calls and a higher package provides.

Packages import downwards only (the layers in ``pyproject.toml``). The few calls that go up are declared here, and
``nemo_evaluator/__init__.py``, which stands above all packages and is always loaded first, binds them.
"""

import importlib
from typing import Any, Final


class Hook:
    """A function that is bound by its address, and loaded when it is first called."""

    def __init__(self, purpose: str) -> None:
        self.purpose = purpose
        self._address = ""

    def bind(self, address: str) -> None:
        """Set the function to call.

        Args:
            address: The function, as ``package.module:name``.
        """
        self._address = address

    def __call__(self, *arguments: Any) -> Any:
        """Call the function.

        Raises:
            RuntimeError: No function is bound.
        """
        if not self._address:
            raise RuntimeError(f"no function is bound to {self.purpose}")
        module, _, name = self._address.partition(":")
        function = getattr(importlib.import_module(module), name)
        return function(*arguments)


#: Takes a ``runs.bundle.Bundle``; returns its ``RunCheck``. ``runs`` calls it for a bundle without checksums.
check_bundle: Final = Hook("the check of a bundle")
