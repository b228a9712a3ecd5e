"""Scorers, pure and executed, and judges. Names resolve on first use, so importing the room costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.scoring._reply import FENCE_NOTE as FENCE_NOTE
    from nemo_evaluator.scoring._reply import fenced as fenced
    from nemo_evaluator.scoring._reply import judge_grade as judge_grade
    from nemo_evaluator.scoring._reply import judge_reply as judge_reply
    from nemo_evaluator.scoring._reply import object_schema as object_schema
    from nemo_evaluator.scoring._text import normalise as normalise
    from nemo_evaluator.scoring._text import readable as readable
    from nemo_evaluator.scoring._text import strip_reasoning as strip_reasoning
    from nemo_evaluator.scoring.agreement import krippendorff_alpha as krippendorff_alpha
    from nemo_evaluator.scoring.canary import Canary as Canary
    from nemo_evaluator.scoring.choice import extract_mcq_letter as extract_mcq_letter
    from nemo_evaluator.scoring.choice import mcq_extract as mcq_extract
    from nemo_evaluator.scoring.choice import multichoice_regex as multichoice_regex
    from nemo_evaluator.scoring.code import code_sandbox as code_sandbox
    from nemo_evaluator.scoring.code import code_sandbox_async as code_sandbox_async
    from nemo_evaluator.scoring.code import extract_code as extract_code
    from nemo_evaluator.scoring.json import extract_json as extract_json
    from nemo_evaluator.scoring.json import json_schema as json_schema
    from nemo_evaluator.scoring.json import validate_json_schema as validate_json_schema
    from nemo_evaluator.scoring.line import answer_line as answer_line
    from nemo_evaluator.scoring.metric import Metric as Metric
    from nemo_evaluator.scoring.metric import MetricInput as MetricInput
    from nemo_evaluator.scoring.metric import MetricResult as MetricResult
    from nemo_evaluator.scoring.metrics.judge import JudgedEnvironment as JudgedEnvironment
    from nemo_evaluator.scoring.number import extract_number as extract_number
    from nemo_evaluator.scoring.number import numeric_match as numeric_match
    from nemo_evaluator.scoring.number import parse_number as parse_number
    from nemo_evaluator.scoring.registry import get_scorer as get_scorer
    from nemo_evaluator.scoring.registry import list_scorers as list_scorers
    from nemo_evaluator.scoring.registry import reward_of as reward_of
    from nemo_evaluator.scoring.registry import run_scorer as run_scorer
    from nemo_evaluator.scoring.symbolic import math as math
    from nemo_evaluator.scoring.text import exact_match as exact_match
    from nemo_evaluator.scoring.text import f1 as f1
    from nemo_evaluator.scoring.text import fuzzy_match as fuzzy_match
    from nemo_evaluator.scoring.text import needs_judge as needs_judge
    from nemo_evaluator.scoring.text import token_f1 as token_f1
    from nemo_evaluator.scoring.types import Score as Score
    from nemo_evaluator.scoring.types import Scorer as Scorer
    from nemo_evaluator.scoring.types import ScorerInput as ScorerInput
    from nemo_evaluator.scoring.types import found as found
    from nemo_evaluator.scoring.types import scorer_version as scorer_version
    from nemo_evaluator.scoring.types import versioned as versioned

_MODULES = {
    "_reply": ("FENCE_NOTE", "fenced", "judge_grade", "judge_reply", "object_schema"),
    "_text": ("normalise", "readable", "strip_reasoning"),
    "agreement": ("krippendorff_alpha",),
    "canary": ("Canary",),
    "choice": ("extract_mcq_letter", "mcq_extract", "multichoice_regex"),
    "code": ("code_sandbox", "code_sandbox_async", "extract_code"),
    "json": ("extract_json", "json_schema", "validate_json_schema"),
    "nemo_evaluator.scoring.metrics.judge": ("JudgedEnvironment",),
    "line": ("answer_line",),
    "metric": ("Metric", "MetricInput", "MetricResult"),
    "number": ("extract_number", "numeric_match", "parse_number"),
    "registry": ("get_scorer", "list_scorers", "reward_of", "run_scorer"),
    "symbolic": ("math",),
    "text": ("exact_match", "f1", "fuzzy_match", "needs_judge", "token_f1"),
    "types": ("Score", "Scorer", "ScorerInput", "found", "scorer_version", "versioned"),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
