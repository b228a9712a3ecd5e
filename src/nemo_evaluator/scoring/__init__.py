"""Scorers, pure and executed, and judges. Names resolve on first use, so that importing the package costs nothing."""

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
    from nemo_evaluator.scoring.choice import extract_mcq_letter as extract_mcq_letter
    from nemo_evaluator.scoring.choice import mcq_extract as mcq_extract
    from nemo_evaluator.scoring.choice import multichoice_regex as multichoice_regex
    from nemo_evaluator.scoring.code import code_sandbox as code_sandbox
    from nemo_evaluator.scoring.code import code_sandbox_async as code_sandbox_async
    from nemo_evaluator.scoring.code_extract import extract_code as extract_code
    from nemo_evaluator.scoring.json import extract_json as extract_json
    from nemo_evaluator.scoring.json import json_schema as json_schema
    from nemo_evaluator.scoring.json import validate_json_schema as validate_json_schema
    from nemo_evaluator.scoring.line import answer_line as answer_line
    from nemo_evaluator.scoring.metric import Canary as Canary
    from nemo_evaluator.scoring.metric import Metric as Metric
    from nemo_evaluator.scoring.metric import MetricInput as MetricInput
    from nemo_evaluator.scoring.metric import MetricResult as MetricResult
    from nemo_evaluator.scoring.metrics.ensemble_judge import (
        krippendorff_alpha as krippendorff_alpha,
    )
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

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "Canary": "nemo_evaluator.scoring.metric",
        "FENCE_NOTE": "nemo_evaluator.scoring._reply",
        "JudgedEnvironment": "nemo_evaluator.scoring.metrics.judge",
        "Metric": "nemo_evaluator.scoring.metric",
        "MetricInput": "nemo_evaluator.scoring.metric",
        "MetricResult": "nemo_evaluator.scoring.metric",
        "Score": "nemo_evaluator.scoring.types",
        "Scorer": "nemo_evaluator.scoring.types",
        "ScorerInput": "nemo_evaluator.scoring.types",
        "answer_line": "nemo_evaluator.scoring.line",
        "code_sandbox": "nemo_evaluator.scoring.code",
        "code_sandbox_async": "nemo_evaluator.scoring.code",
        "exact_match": "nemo_evaluator.scoring.text",
        "extract_code": "nemo_evaluator.scoring.code_extract",
        "extract_json": "nemo_evaluator.scoring.json",
        "extract_mcq_letter": "nemo_evaluator.scoring.choice",
        "extract_number": "nemo_evaluator.scoring.number",
        "f1": "nemo_evaluator.scoring.text",
        "fenced": "nemo_evaluator.scoring._reply",
        "found": "nemo_evaluator.scoring.types",
        "fuzzy_match": "nemo_evaluator.scoring.text",
        "get_scorer": "nemo_evaluator.scoring.registry",
        "json_schema": "nemo_evaluator.scoring.json",
        "judge_grade": "nemo_evaluator.scoring._reply",
        "judge_reply": "nemo_evaluator.scoring._reply",
        "krippendorff_alpha": "nemo_evaluator.scoring.metrics.ensemble_judge",
        "list_scorers": "nemo_evaluator.scoring.registry",
        "math": "nemo_evaluator.scoring.symbolic",
        "mcq_extract": "nemo_evaluator.scoring.choice",
        "multichoice_regex": "nemo_evaluator.scoring.choice",
        "needs_judge": "nemo_evaluator.scoring.text",
        "normalise": "nemo_evaluator.scoring._text",
        "numeric_match": "nemo_evaluator.scoring.number",
        "object_schema": "nemo_evaluator.scoring._reply",
        "parse_number": "nemo_evaluator.scoring.number",
        "readable": "nemo_evaluator.scoring._text",
        "reward_of": "nemo_evaluator.scoring.registry",
        "run_scorer": "nemo_evaluator.scoring.registry",
        "scorer_version": "nemo_evaluator.scoring.types",
        "strip_reasoning": "nemo_evaluator.scoring._text",
        "token_f1": "nemo_evaluator.scoring.text",
        "validate_json_schema": "nemo_evaluator.scoring.json",
        "versioned": "nemo_evaluator.scoring.types",
    },
)
