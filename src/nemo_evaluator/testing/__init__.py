"""What we and our users test with: a scripted OpenAI-compatible server with faults by script and by seed."""

from nemo_evaluator.testing.atif import validate_trajectory
from nemo_evaluator.testing.script import Fault, Rule, Say, Seen, Weather
from nemo_evaluator.testing.scripted import ScriptedServer

__all__ = ["Fault", "Rule", "Say", "ScriptedServer", "Seen", "Weather", "validate_trajectory"]
