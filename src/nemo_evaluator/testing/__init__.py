"""Test doubles for nel and its users: a scripted model server with faults, and a validator for trajectories."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.testing.atif import validate_trajectory as validate_trajectory
    from nemo_evaluator.testing.script import Fault as Fault
    from nemo_evaluator.testing.script import Rule as Rule
    from nemo_evaluator.testing.script import Say as Say
    from nemo_evaluator.testing.script import Seen as Seen
    from nemo_evaluator.testing.script import Weather as Weather
    from nemo_evaluator.testing.scripted import ScriptedServer as ScriptedServer

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "Fault": "nemo_evaluator.testing.script",
        "Rule": "nemo_evaluator.testing.script",
        "Say": "nemo_evaluator.testing.script",
        "ScriptedServer": "nemo_evaluator.testing.scripted",
        "Seen": "nemo_evaluator.testing.script",
        "Weather": "nemo_evaluator.testing.script",
        "validate_trajectory": "nemo_evaluator.testing.atif",
    },
)
