"""HellaSwag: which of four endings continues a scene."""

import re

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import lettered
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import multichoice_regex

# Marks that the how-to articles left in the text, such as "[header]" and "[step]".
_TITLE = re.compile(r"(?<=[^.?!\s])\s*\[title\]")
_MARKS = re.compile(r"\[[^][]*\]")


def _clean(text: str) -> str:
    """As published: a title ends the sentence before it, the other marks go; no ending loses its full stop."""
    return " ".join(_MARKS.sub(" ", _TITLE.sub(". ", text.strip())).split())


def prepare(row: JsonDict) -> JsonDict:
    """The activity is the category."""
    endings = [_clean(ending) for ending in row["endings"]]
    context = _clean(
        f"{row['ctx_a']} {row['ctx_b'][:1].upper()}{row['ctx_b'][1:]}"
        if "ctx_a" in row
        else row["ctx"]
    )
    activity = row["activity_label"]
    columns = {"ind": row["ind"], "context": f"{activity}: {context}", "category": activity}
    return columns | lettered(endings, int(row["label"]))


builtin("hellaswag", prepare_row=prepare)(lambda sample: multichoice_regex(sample, labels="ABCD"))
