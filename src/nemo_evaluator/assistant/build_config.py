"""Build a config from five answers: execution, deployment, export, type of model, benchmarks."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from nemo_evaluator.assistant.answers import SetupAnswers as SetupAnswers
from nemo_evaluator.assistant.launcher_format import launcher_config
from nemo_evaluator.assistant.recipes import read_data, recipes, render
from nemo_evaluator.assistant.yaml_text import MissingValue, missing_values, set_value
from nemo_evaluator.config.overrides import parse_override
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean

_ENDINGS: Final = (".yaml", ".yml")
#: The formats of a config: nel's own, and the dialect of the launcher.
Format: TypeAlias = Literal["nel", "launcher"]


@dataclass(frozen=True, slots=True)
class Question:
    """One of the five questions of ``nel init``.

    Attributes:
        name: Name of the question, from which its flag is made.
        ask: The question as shown to the user.
        words: The offered answers, each with its meaning.
        many: Whether several answers are allowed.
        hidden: Accepted answers that are not offered.
        also: Other names for answers.
    """

    name: str
    ask: str
    words: dict[str, str]
    many: bool = False
    hidden: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)

    def check(self, text: str) -> str:
        """Return the accepted answer that a text stands for.

        Args:
            text: What the user gave, in any case, with ``-`` or ``_``.

        Raises:
            UsageError: If the text is not an accepted answer.
        """
        answer = text.strip().lower()
        accepted = [*self.words, *self.hidden, *(recipes() if self.many else ())]
        if answer in accepted or answer in self.also:
            # A bundle keeps the given name, because the file name is made from it.
            if self.many:
                return answer
            return self.also.get(answer, answer)
        if answer.replace("-", "_") in accepted:
            return answer.replace("-", "_")
        hint = did_you_mean(answer, accepted, also=f"one of: {', '.join(accepted)}")
        raise UsageError(f"--{self.name.replace('_', '-')} {text!r} is unknown", hint=hint)


@cache
def questions() -> dict[str, Question]:
    """Return the five questions by name, in the order in which they are asked."""
    return {name: Question(name, **row) for name, row in read_data("questions.yaml").items()}


def read_answers(given: Mapping[str, str | Iterable[str]]) -> SetupAnswers:
    """Check the answers given by flags.

    Args:
        given: Answers by the name of the question; several for questions that allow it.

    Raises:
        UsageError: If an answer is unknown; the hint lists the choices.
    """
    answers: dict[str, Any] = {}
    for name, value in given.items():
        question = questions()[name]
        if isinstance(value, str):
            answers[name] = question.check(value)
        else:
            choices: list[str] = []
            for text in value:
                for choice in text.replace(",", " ").split():
                    choices.append(choice)
            answers[name] = tuple(dict.fromkeys(map(question.check, choices)))
    return SetupAnswers(**answers)


def ask_answers(choose: Callable[[Question, str], str], given: Mapping[str, Any]) -> SetupAnswers:
    """Complete the answers from flags by asking the remaining questions.

    Args:
        choose: Asks one question, with its default, and returns the answer.
        given: The answers from flags, by the name of the question.

    Raises:
        UsageError: If an answer is unknown.
    """
    answers = dict(given)
    for name, question in questions().items():
        if not given.get(name):
            default = asdict(SetupAnswers())[name]
            answer = choose(question, default[0] if question.many else default)
            answers[name] = [answer] if question.many else answer
    return read_answers(answers)


def build_config(
    answers: SetupAnswers,
    settings: Iterable[str] = (),
    model: str | None = None,
    form: Format = "nel",
) -> str:
    """Build the text of a config; values that nobody gave stay ``???``.

    Args:
        answers: The answers to the five questions.
        settings: Further values as ``KEY=VALUE``, as ``--set`` takes them.
        model: PROVIDER/MODEL of an endpoint, or the model to serve.
        form: The format of the config.
    """
    if form == "launcher":
        also = questions()["benchmarks"].also
        bundles = [also.get(bundle, bundle) for bundle in answers.benchmarks]
        text = launcher_config(answers, bundles)
    else:
        text = _own_config(answers)
    for path, value in _model(answers, model, form):
        text = set_value(text, path, value)
    for path, value in map(parse_override, settings):
        text = set_value(text, path, value)
    return text + "\n"


def _own_config(answers: SetupAnswers) -> str:
    """Build the text of a config in nel's own format."""
    all_entries: list[str] = []
    for bundle in answers.benchmarks:
        all_entries.extend(_entries(bundle, answers.model_type))
    entries = list(dict.fromkeys(all_entries))
    code_sandbox = ""
    if any("sandbox: code" in entry for entry in entries):
        code_sandbox = "docker" if shutil.which("docker") else "local"
    values = asdict(answers)
    values["benchmarks"] = entries
    values["code"] = code_sandbox
    values["title"] = f"{answers.model_type} model: {', '.join(answers.benchmarks)}"
    return render("config.yaml.j2", **values, **answers.lengths)


def ask_missing(value: Callable[[MissingValue], str], text: str) -> str:
    """Ask for every missing value and write it into the config.

    Args:
        value: Asks for one missing value and returns the answer.
        text: The text of the config. For an API key the answer is the name of an environment variable.
    """
    for missing_value in missing_values(text):
        path, answer = parse_override(f"{missing_value.name}={value(missing_value)}")
        is_service_key = path[0] == "services" and path[-1] == "api_key"
        if is_service_key and isinstance(answer, str) and answer.isidentifier():
            answer = f"${{{answer}}}"
        text = set_value(text, path, answer)
    return text


def write_config(text: str, answers: SetupAnswers, output: str | None) -> Path:
    """Write the config to a new file; an existing file is never overwritten.

    Args:
        text: The text of the config.
        answers: The answers, from which the default file name is made.
        output: The file or folder to write to; None: the current folder.

    Returns:
        The path of the file.
    """
    path = output_path(answers, output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    return path


def output_path(answers: SetupAnswers, output: str | None) -> Path:
    """Return the path for a new config; if the name is taken, a number is added to it."""
    requested = Path(output or ".").expanduser()
    preferred = requested if requested.suffix in _ENDINGS else requested / answers.file_name
    path = preferred
    number = 0
    while path.exists():
        number += 1
        path = preferred.with_stem(f"{preferred.stem}_{number}")
    return path


def refuse_missing(text: str) -> None:
    """Raise UsageError if values are missing; the hint lists each with the flag that sets it."""
    missing = missing_values(text)
    if missing:
        lines = ["give them (or leave out --yes to be asked):"]
        for missing_value in missing:
            lines.append(f"    --set {missing_value.name}=VALUE    # {missing_value.hint}")
        raise UsageError("values are missing", hint="\n".join(lines))


def _entries(bundle: str, model_type: str) -> list[str]:
    """Return the entries of ``benchmarks:`` that a recipe or a bundle stands for."""
    if bundle in recipes():
        return [recipes()[bundle].config]
    names_of_bundle = read_data("bundles.yaml")
    run_as = SetupAnswers(model_type=model_type).run_as
    bundle_name = questions()["benchmarks"].also.get(bundle, bundle)
    names = _names_for(names_of_bundle[bundle_name], run_as)
    if not names:
        suitable_bundles: list[str] = []
        for name, names_by_model_type in names_of_bundle.items():
            if _names_for(names_by_model_type, run_as):
                suitable_bundles.append(name)
        raise UsageError(
            f"{bundle} has no benchmarks for a {model_type} model",
            hint=f"one of: {', '.join(suitable_bundles)}",
        )
    return [recipes()[name].config if name in recipes() else name for name in names]


def _names_for(names_by_model_type: Mapping[str, list[str]], model_type: str) -> list[str]:
    """Return a bundle's benchmarks for a type of model; those of chat models if it has none of its own."""
    return names_by_model_type.get(model_type, names_by_model_type["chat"])


def _model(answers: SetupAnswers, model: str | None, form: Format) -> list[tuple[list[str], Any]]:
    """Return the settings of ``--model``: an endpoint and its key for PROVIDER/MODEL, or the model to serve."""
    if model is None:
        return []
    service = ["services", "model"]
    if answers.deployment != "none" and form == "launcher":
        return _served_model(answers.deployment, model)
    if answers.deployment != "none":
        return [([*service, "model"], model)]
    # Imported only here: the config schema takes longer to load than the rest of this module.
    from nemo_evaluator.config.quick import find_provider  # noqa: PLC0415

    provider, name = find_provider(model)
    url_path = "completions" if answers.model_type == "base" else "chat/completions"
    if form == "launcher":
        endpoint = ["target", "api_endpoint"]
        return [
            ([*endpoint, "url"], f"{provider.url}/{url_path}"),
            ([*endpoint, "model_id"], name),
            ([*endpoint, "api_key_name"], provider.key),
        ]
    key = f"${{{provider.key}}}" if provider.key else None
    return [
        ([*service, "url"], f"{provider.url}/{url_path}"),
        ([*service, "model"], name),
        ([*service, "api_key"], key),
    ]


def _served_model(deployment: str, model: str) -> list[tuple[list[str], Any]]:
    """Return the launcher's settings of a model to serve: a folder, or a hub name where the server takes one."""
    served_name = (["deployment", "served_model_name"], model.rstrip("/").rpartition("/")[2])
    if deployment == "nim":
        return [(["deployment", "image"], model), served_name]
    is_folder = model.startswith(("/", "./", "../", "~"))
    if deployment == "trtllm" or is_folder:
        settings: list[tuple[list[str], Any]] = [(["deployment", "checkpoint_path"], model)]
        if deployment != "trtllm":
            settings.append((["deployment", "hf_model_handle"], None))
    else:
        settings = [(["deployment", "hf_model_handle"], model)]
    return [*settings, served_name]
