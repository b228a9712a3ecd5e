"""A kind: one word of a config, its checked settings and its builder, declared once, in the file of the thing itself.

::

    # solvers/shout.py
    class ShoutSettings(SolverSettings):
        type: Literal["shout"] = "shout"

    KIND = Kind(ShoutSettings, build)

The word is the name of the file, or of the entry point of a third party. Everything else follows from the
declaration: what a config may hold, "did you mean", what cannot run yet, the JSON Schema and the reference page.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import Registry, load_object
from nemo_evaluator.core.values import dataclass

if TYPE_CHECKING:
    from pydantic import BaseModel

NOT_YET: Final = "not supported yet"


@dataclass(frozen=True, slots=True)
class Kind:
    """The declaration of a kind.

    Attributes:
        settings: The schema of its settings; None takes it from the parameters of ``build``.
        build: A callable, or ``"package.module:name"``, imported on first use. Each group defines its parameters.
        missing: Why this version knows the kind but cannot run it; None when it can.
    """

    settings: type[BaseModel] | None = None
    build: Callable[..., Any] | str | None = None
    missing: str | None = None

    def builder(self) -> Any:
        """Return the callable that builds the object, imported if necessary."""
        if isinstance(self.build, str):
            return load_object(self.build)
        return self.build


class Kinds(Registry[Kind]):
    """The kinds of one group: declared in the files of a package, or as entry points."""

    def __init__(
        self,
        kind: str,
        *,
        group: str,
        home: str,
        dashes: bool = False,
        declares: str = "KIND",
        supplied: tuple[str, ...] = (),
    ) -> None:
        """Open a group.

        Args:
            kind: What messages call one of them.
            group: The group of entry points.
            home: The package whose files declare kinds.
            dashes: Whether ``lm_eval.py`` declares ``lm-eval`` instead of ``lm_eval``.
            declares: The name that such a file defines.
            supplied: The parameters of builders that a config does not set.
        """
        super().__init__(kind, group=group)
        self._home = home
        self._dashes = dashes
        self._declares = declares
        self._supplied = supplied

    def schema(self, name: str) -> type[BaseModel]:
        """Return the schema of a kind's settings."""
        kind = self.get(name)
        if kind.settings is not None:
            return kind.settings
        # Imported here: finding a scorer does not need the library that checks settings.
        from nemo_evaluator.core.parameters import settings_of  # noqa: PLC0415

        return settings_of(kind.builder(), self._supplied)

    def get(self, name: str) -> Kind:
        """Return the kind of this name. A bare callable counts as a kind whose settings are its parameters.

        Raises:
            UsageError: There is no such kind, or something else is registered under its name.
        """
        target: Any = super().get(name)
        if isinstance(target, Kind):
            return target
        if not callable(target):
            raise UsageError(
                f"{self.kind} {name!r} is registered as {target!r}",
                hint="register a Kind or a class",
            )
        kind = Kind(build=target)
        self.add(name, kind, replace=True)
        return kind

    def build(self, name: str, *arguments: Any, **settings: Any) -> Any:
        """Build the object of a kind.

        Args:
            name: The name of the kind.
            arguments: The positional arguments of its builder.
            settings: The checked settings.

        Raises:
            UsageError: This version cannot run the kind.
        """
        kind = self.get(name)
        if kind.missing is not None:
            raise UsageError(
                f"{self.kind} {name!r} is {kind.missing}",
                hint=f"supported: {', '.join(self.ready())}",
            )
        return kind.builder()(*arguments, **settings)

    def ready(self) -> list[str]:
        """Return the names of the kinds that can run."""
        return [name for name in self.names() if self.get(name).missing is None]

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str) and name not in self._targets and not self._scanned:
            if self._dashes:
                stem = name.replace("-", "_")
            else:
                stem = name
            if stem.isidentifier() and self._adopt(self._folder() / f"{stem}.py") == name:
                return True
        return super().__contains__(name)

    def _scan(self) -> None:
        if not self._scanned:
            for file in self._folder().glob("[a-z]*.py"):
                self._adopt(file)
        super()._scan()

    def _folder(self) -> Path:
        spec = importlib.util.find_spec(self._home)
        assert spec is not None and spec.submodule_search_locations is not None
        return Path(next(iter(spec.submodule_search_locations)))

    def _adopt(self, file: Path) -> str | None:
        """Register the kind that a file declares, without importing it; returns its name or None."""
        if not file.is_file():
            return None
        declaration = rf"^(?:(?:class )?{self._declares}\b|from .* import .*\b{self._declares}\b)"
        if re.search(declaration, file.read_text(encoding="utf-8"), re.MULTILINE) is None:
            return None
        if self._dashes:
            name = file.stem.replace("_", "-")
        else:
            name = file.stem
        self._targets.setdefault(name, f"{self._home}.{file.stem}:{self._declares}")
        return name
