"""Task files for lm-eval, one per family, with their data; and a server whose log-probabilities are made of hashes."""

import hashlib
import json
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from nemo_evaluator.testing import Say

WORDS = [
    "north",
    "south",
    "east",
    "west",
    "red",
    "blue",
    "green",
    "seven",
    "eight",
    "nine",
    "the",
    "a",
    "of",
    "is",
    "city",
]


def _draw(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


def _sentence(*parts: object) -> str:
    return " ".join(WORDS[_draw(*parts, n) % len(WORDS)] for n in range(4 + _draw(*parts) % 6))


def _choices(count: int, salt: str) -> list[dict[str, Any]]:
    return [
        {
            "question": f"Which way is {_sentence(salt, n)}?",
            "choices": [_sentence(salt, n, k) for k in range(4)],
            "gold": _draw(salt, n) % 4,
        }
        for n in range(count)
    ]


def _numbers(count: int, salt: str) -> list[dict[str, Any]]:
    return [
        {"question": f"{salt}: {n} and {n + 3} is?", "answer": f"#### {2 * n + 3}"}
        for n in range(count)
    ]


CUSTOM = """
def process(doc, results):
    said = results[0]
    checks = [len(said) % 2 == 0, "1" in said, said.endswith(".")]
    return {"strict": all(checks), "checks": checks}


def share(items):
    flat = [one for row in items for one in row]
    return sum(flat) / len(flat)
"""


def write_tasks(folder: Path) -> None:
    """Eight families in ``folder``."""
    data = {
        "choices": _choices(37, "a"),
        "more": _choices(11, "b"),
        "numbers": _numbers(29, "sum"),
        "texts": [
            {"text": ". ".join(_sentence("t", n, k) for k in range(1 + n * 6))} for n in range(7)
        ],
        "lambada": [{"text": _sentence("l", n), "last": WORDS[n % len(WORDS)]} for n in range(13)],
    }
    for name, rows in data.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "custom.py").write_text(CUSTOM)

    def base(name: str, rows: str, kind: str, **more: Any) -> dict[str, Any]:
        files = {split: str(folder / f"{rows}.jsonl") for split in ("train", "test")}
        return {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": files},
            "output_type": kind,
            "training_split": "train",
            "fewshot_split": "train",
            "test_split": "test",
            "metadata": {"version": 1.0},
            **more,
        }

    def metric(name: str, how: str = "mean", **more: Any) -> dict[str, Any]:
        return {"metric": name, "aggregation": how, "higher_is_better": True, **more}

    choice = {
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_choice": "choices",
        "doc_to_target": "gold",
        "metric_list": [metric("acc"), metric("acc_norm")],
    }
    number = {
        "doc_to_text": "Q: {{question}}\nA:",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {
            "until": ["Q:", "</s>"],
            "do_sample": False,
            "temperature": 0.0,
            "max_gen_toks": 24,
        },
    }
    exact = [metric("exact_match", ignore_case=True, regexes_to_ignore=[",", "(?s).*#### "])]

    def regex(pattern: str, **more: Any) -> dict[str, Any]:
        return {"function": "regex", "regex_pattern": pattern, **more}

    first = {"function": "take_first"}
    filters = [
        {"name": "strict-match", "filter": [regex(r"#### (\-?[0-9]+)"), first]},
        {"name": "flexible-extract", "filter": [regex(r"(-?[0-9]+)", group_select=-1), first]},
    ]
    voted = [
        {"name": "maj@4", "filter": [regex(r"(-?[0-9]+)"), {"function": "majority_vote"}, first]},
        {"name": "first", "filter": [regex(r"(-?[0-9]+)"), first]},
    ]
    bbh = {
        "doc_to_text": "Question: {{question}}\nA:",
        "filter_list": [
            {"name": "get-answer", "filter": [regex(r"((?<=is ).*)(?=\.)", fallback="?"), first]}
        ],
        "metric_list": [metric("exact_match", ignore_punctuation=True)],
    }
    rolling = {
        "doc_to_text": "",
        "doc_to_target": "text",
        "metric_list": [
            {"metric": "word_perplexity"},
            {"metric": "byte_perplexity"},
            {"metric": "bits_per_byte"},
        ],
    }
    lambada = {
        "doc_to_text": "{{text}}",
        "doc_to_target": "{{' ' + last}}",
        "metric_list": [metric("perplexity", "perplexity", higher_is_better=False), metric("acc")],
    }
    tasks = [
        base("t_choice", "choices", "multiple_choice", num_fewshot=2, **choice),
        base("t_small", "more", "multiple_choice", num_fewshot=0, **choice),
        base(
            "t_number",
            "numbers",
            "generate_until",
            num_fewshot=3,
            filter_list=filters,
            metric_list=exact,
            **number,
        ),
        base("t_bbh", "numbers", "generate_until", num_fewshot=0, **(number | bbh)),
        base(
            "t_vote",
            "numbers",
            "generate_until",
            repeats=4,
            filter_list=voted,
            metric_list=exact,
            **number,
        ),
        base("t_unsafe", "numbers", "generate_until", unsafe_code=True, **(number | bbh)),
        base("t_rolling", "texts", "loglikelihood_rolling", **rolling),
        base("t_lambada", "lambada", "loglikelihood", **lambada),
    ]
    for task in tasks:
        (folder / f"{task['task']}.yaml").write_text(yaml.safe_dump(task))
    own = base("t_custom", "numbers", "generate_until", **number)
    text = yaml.safe_dump(own) + "process_results: !function custom.process\nmetric_list:\n"
    text += "  - metric: strict\n    aggregation: mean\n    higher_is_better: true\n"
    text += (
        "  - metric: checks\n    aggregation: !function custom.share\n    higher_is_better: true\n"
    )
    (folder / "t_custom.yaml").write_text(text)
    for weighted in (True, False):
        group = {
            "group": f"g_{'weighted' if weighted else 'plain'}",
            "task": ["t_choice", "t_small"],
            "aggregate_metric_list": [{"metric": "acc", "weight_by_size": weighted}],
            "metadata": {"version": 1.0},
        }
        (folder / f"{group['group']}.yaml").write_text(yaml.safe_dump(group))


def write_tokenizer(folder: Path) -> None:
    """A small byte-level tokenizer, as models have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator([_sentence("tokens", n) for n in range(200)], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "<s>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _value(before: int, token: int) -> float:
    return -(_draw(before, token) % 997) / 131


class Model:
    """Continues texts and gives their log-probabilities, always alike; asked the same again, it may say otherwise."""

    def __init__(self, tokenizer: Path, *, shift: int = 0) -> None:
        # How many tokens its log-probabilities of prompts are off.
        self._shift = shift
        self._tokenizer = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, seen: Any) -> Say:
        prompt = seen.body["prompt"]
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], list):
            (prompt,) = prompt
        if seen.body.get("echo"):
            return self._echo(prompt)
        if seen.body.get("logprobs"):
            return self._next(prompt)
        text = self._tokenizer.decode(prompt) if isinstance(prompt, list) else prompt
        with self._lock:
            self.asked[text] += 1
            again = self.asked[text]
        value = _draw(text, again % 2) % 40
        forms = [f" The answer is {value}.", f" #### {value}", f" {value} and then 7\nQ: next"]
        said = forms[_draw(text) % 3]
        stops = [at for stop in seen.body.get("stop") or [] if (at := said.find(stop)) >= 0]
        return Say(said[: min(stops)] if stops else said)

    def _next(self, prompt: Any) -> Say:
        ids = (
            prompt
            if isinstance(prompt, list)
            else self._tokenizer.encode(prompt, add_special_tokens=False).ids
        )
        (token,) = self._tokenizer.encode(" the", add_special_tokens=False).ids
        value = _value(ids[-1], token)
        lists = {
            "tokens": [" the"],
            "token_logprobs": [value],
            "top_logprobs": [{" the": value}],
            "text_offset": [0],
        }
        return Say(" the", finish_reason="length", logprobs=lists)

    def _echo(self, prompt: Any) -> Say:
        if isinstance(prompt, list):
            ids, offsets = prompt, [0] * len(prompt)
        else:
            encoded = self._tokenizer.encode(prompt, add_special_tokens=False)
            ids, offsets = encoded.ids, [start for start, _ in encoded.offsets]
        values: list[float | None] = [None]
        tops: list[dict[str, float] | None] = [None]
        for before, token in pairwise(ids):
            value = _value(before, token)
            best = max(value, -(_draw(before) % 997) / 400)
            values.append(value)
            tops.append({"best": best, "token": value} if best != value else {"token": value})
        if self._shift:
            values, tops = [values[0], *values[:-1]], [tops[0], *tops[:-1]]
        end = len(prompt) if isinstance(prompt, str) else 0
        logprobs = {
            "tokens": [str(one) for one in ids] + ["x"],
            "token_logprobs": [*values, -1.0],
            "top_logprobs": [*tops, {"x": -1.0}],
            "text_offset": [*offsets, end],
        }
        return Say("x", finish_reason="length", logprobs=logprobs)
