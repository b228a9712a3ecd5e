from nemo_evaluator.testing.atif import validate_trajectory as validate_trajectory
from nemo_evaluator.testing.script import Fault as Fault
from nemo_evaluator.testing.script import Rule as Rule
from nemo_evaluator.testing.script import Say as Say
from nemo_evaluator.testing.script import Seen as Seen
from nemo_evaluator.testing.script import Weather as Weather
from nemo_evaluator.testing.scripted import ScriptedServer as ScriptedServer
