"""What the table of the config calls built can be found where it is built."""

from __future__ import annotations

from nemo_evaluator.sandbox.registry import PROVIDERS
from nemo_evaluator.services.kinds import KINDS
from nemo_evaluator.solvers.registry import SOLVERS

from nemo_evaluator.config import RUNTIME


def built(table: dict[str, str | None]) -> set[str]:
    return {kind for kind, reason in table.items() if reason is None}


def test_every_built_kind_has_its_code() -> None:
    assert built(RUNTIME.services) - {"api"} <= set(KINDS.names())
    assert built(RUNTIME.sandboxes) - {"none"} <= set(PROVIDERS.names())
    assert built(RUNTIME.solvers) <= set(SOLVERS.names())
    for registry, table in ((KINDS, RUNTIME.services), (PROVIDERS, RUNTIME.sandboxes), (SOLVERS, RUNTIME.solvers)):
        for kind in built(table) & set(registry.names()):
            assert registry.get(kind) is not None
