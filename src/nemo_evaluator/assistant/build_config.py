"""A config from five answers: where it runs, how the model is served, exports, the kind of model, the benchmarks."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.assistant.recipes import read_data, recipes, render
from nemo_evaluator.assistant.yaml_text import MissingValue, missing_values, set_value
from nemo_evaluator.config.overrides import parse_override
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean

_ENDINGS: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Question:
    """One of the five: ``words`` with what they mean, ``hidden`` ones that are not offered, ``also`` other names."""

    name: str
    ask: str
    words: dict[str, str]
    many: bool = False
    hidden: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)

    def check(self, text: str) -> str:
        """The word that a text means. Raises UsageError for one that is none."""
        word = text.strip().lower()
        known = [*self.words, *self.hidden, *(recipes() if self.many else ())]
        if word in known or word in self.also:
            # Bundles keep the word that was given: it names the file.
            if self.many:
                return word
            return self.also.get(word, word)
        if word.replace("-", "_") in known:
            return word.replace("-", "_")
        hint = did_you_mean(word, known, also=f"one of: {', '.join(known)}")
        raise UsageError(f"--{self.name.replace('_', '-')} {text!r} is unknown", hint=hint)


@dataclass(frozen=True, slots=True)
class SetupAnswers:
    """The answers to the five questions."""

    execution: str = "local"
    deployment: str = "none"
    export: str = "none"
    model_type: str = "chat"
    benchmarks: tuple[str, ...] = ("standard",)

    @property
    def file_name(self) -> str:
        """Such as ``slurm_vllm_reasoning_math_reasoning_standard.yaml``."""
        return (
            "_".join(
                [self.execution, self.deployment, self.model_type, *sorted(set(self.benchmarks))]
            )
            + ".yaml"
        )


@cache
def questions() -> dict[str, Question]:
    """The five questions, in order."""
    return {name: Question(name, **row) for name, row in read_data("questions.yaml").items()}


def read_answers(given: Mapping[str, str | Iterable[str]]) -> SetupAnswers:
    """Check the answers given by flags; the error for an unknown one lists the choices."""
    checked: dict[str, Any] = {}
    for name, value in given.items():
        question = questions()[name]
        if isinstance(value, str):
            checked[name] = question.check(value)
        else:
            words: list[str] = []
            for text in value:
                for word in text.replace(",", " ").split():
                    words.append(word)
            checked[name] = tuple(dict.fromkeys(map(question.check, words)))
    return SetupAnswers(**checked)


def ask_answers(choose: Callable[[Question, str], str], given: Mapping[str, Any]) -> SetupAnswers:
    """The five answers: those that flags gave, and the others asked for, each with its default."""
    answers = dict(given)
    for name, question in questions().items():
        if not given.get(name):
            default = asdict(SetupAnswers())[name]
            word = choose(question, default[0] if question.many else default)
            answers[name] = [word] if question.many else word
    return read_answers(answers)


def build_config(
    answers: SetupAnswers, settings: Iterable[str] = (), model: str | None = None
) -> str:
    """The text of the config. ``settings`` are ``KEY=VALUE`` as ``--set`` takes them; what is missing stays ``???``."""
    entries = dict.fromkeys(
        entry for bundle in answers.benchmarks for entry in _entries(bundle, answers.model_type)
    )
    if any("sandbox: code" in one for one in entries):
        if shutil.which("docker"):
            code = "docker"
        else:
            code = "local"
    else:
        code = ""
    title = f"{answers.model_type} model: {', '.join(answers.benchmarks)}"
    text = render(
        "config.yaml.j2",
        **asdict(answers) | {"benchmarks": list(entries), "code": code, "title": title},
    )
    for path, value in (*_model(answers, model), *map(parse_override, settings)):
        text = set_value(text, path, value)
    return text + "\n"


def ask_missing(value: Callable[[MissingValue], str], text: str) -> str:
    """The text with every missing value asked for. A key is given by the name of its variable."""
    for missing in missing_values(text):
        path, answer = parse_override(f"{missing.name}={value(missing)}")
        if (
            path[-1] == "api_key"
            and isinstance(answer, str)
            and answer.isidentifier()
            and path[0] == "services"
        ):
            answer = f"${{{answer}}}"
        text = set_value(text, path, answer)
    return text


def write_config(text: str, answers: SetupAnswers, output: str | None) -> Path:
    """Write the config to a file, or into a folder under a name of its own. What is there is never overwritten."""
    path = output_path(answers, output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    return path


def output_path(answers: SetupAnswers, output: str | None) -> Path:
    """Where a config goes: a number is added to the name while it is taken."""
    given = Path(output or ".").expanduser()
    first = given if given.suffix in _ENDINGS else given / answers.file_name
    path = first
    number = 0
    while path.exists():
        number += 1
        path = first.with_stem(f"{first.stem}_{number}")
    return path


def refuse_missing(text: str) -> None:
    """Raise UsageError that lists every value that is still missing, with the way to give it."""
    missing = missing_values(text)
    if missing:
        lines = "\n".join(f"    --set {one.name}=VALUE    # {one.hint}" for one in missing)
        raise UsageError(
            "values are missing", hint=f"give them (or leave out --yes to be asked):\n{lines}"
        )


def _entries(bundle: str, model_type: str) -> list[str]:
    if bundle in recipes():
        return [recipes()[bundle].config]
    by_type = read_data("bundles.yaml")[questions()["benchmarks"].also.get(bundle, bundle)]
    # Hybrid models are run as reasoning ones.
    named = {"chat_reasoning": "reasoning"}.get(model_type, model_type)
    names = by_type.get(named, by_type["chat"])
    if not names:
        fitting: list[Any] = []
        for name, types in read_data("bundles.yaml").items():
            if types.get(named, types["chat"]):
                fitting.append(name)
        raise UsageError(
            f"{bundle} has no benchmarks for a {model_type} model",
            hint=f"one of: {', '.join(fitting)}",
        )
    return [recipes()[name].config if name in recipes() else name for name in names]


def _model(answers: SetupAnswers, model: str | None) -> list[tuple[list[str], Any]]:
    """What ``--model`` sets: an endpoint and its key for PROVIDER/MODEL, or the model that is served."""
    if model is None:
        return []
    if answers.deployment != "none":
        return [(["services", "model", "model"], model)]
    # Loaded only here: the shape of a config takes longer to load than all else that writes one.
    from nemo_evaluator.config.quick import find_provider  # noqa: PLC0415

    provider, name = find_provider(model)
    if answers.model_type == "base":
        path = "completions"
    else:
        path = "chat/completions"
    key = f"${{{provider.key}}}" if provider.key else None
    values = {"url": f"{provider.url}/{path}", "model": name, "api_key": key}
    return [(["services", "model", field], value) for field, value in values.items()]
