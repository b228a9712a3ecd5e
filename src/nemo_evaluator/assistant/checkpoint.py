"""Read a checkpoint's facts from its JSON files alone; none of its code is imported or executed."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.assistant.quantization import (
    LEGACY_FILE,
    Quantization,
    known_names,
    read_quantization,
)
from nemo_evaluator.assistant.recipes import read_data
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_list, as_number, as_whole
from nemo_evaluator.core.types import JsonDict

# The largest settings file, in bytes.
_LARGEST_FILE: Final = 64 * 1024**2
_LONGEST_KNOWN_CONTEXT: Final = 10**8
# Texts in the chat templates of models that can reason before they answer.
_THINKING_MARKERS: Final = ("<think>", "enable_thinking", "reasoning_effort", "[THINK]")
_REGISTERED_PARSER: Final = re.compile(
    r"ReasoningParserManager\.register_module\(\s*(?:name\s*=\s*)?\[?\s*[\"']([\w.-]+)"
)
# The number of weights in the name of a model: `7B`, `0.5b`.
_SIZE_IN_NAME: Final = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelCheckpoint:
    """The facts of a checkpoint, read from its files; None where the files do not say."""

    path: str
    name: str
    model_type: str
    architectures: tuple[str, ...]
    quantization: Quantization
    dtype: str | None = None
    context: int | None = None
    rope_scaling: str | None = None
    custom_code: bool = False
    heads: int | None = None
    kv_heads: int | None = None
    intermediate: int | None = None
    experts: int = 0
    vision: bool = False
    chat_template: bool | None = None
    thinks: bool = False
    tools: bool = False
    weight_bytes: int | None = None
    generation: JsonDict = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    # Mistral's own format, with params.json in place of config.json.
    mistral_format: bool = False
    # A file with a reasoning parser for vLLM, and the name under which it registers the parser.
    parser_file: str | None = None
    parser_name: str | None = None

    @property
    def is_base(self) -> bool:
        """Whether it is a base model: one with a tokenizer, but without a chat template."""
        return self.chat_template is False and "instruct" not in self.name.lower()


def find_checkpoint(text: str) -> Path:
    """Return the folder of a checkpoint; nothing is downloaded.

    Args:
        text: A folder, or a hub name (ORG/NAME), which is looked up in the local Hugging Face cache only.

    Raises:
        UsageError: If there is no such folder or cached checkpoint.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        raise UsageError(f"{text} is a file", hint="give the folder that holds config.json")
    if text.startswith(("/", ".", "~")) or text.count("/") != 1:
        raise UsageError(
            f"{text} does not exist",
            hint="give the folder of a checkpoint, or a hub name: ORG/NAME",
        )
    from huggingface_hub import constants, try_to_load_from_cache  # noqa: PLC0415 - slow, only for hub names

    cached_file = try_to_load_from_cache(text, "config.json")
    if not isinstance(cached_file, str):
        hint = (
            f"nothing is downloaded here: hf download {text} --include '*.json', or give a folder"
        )
        raise UsageError(f"{text} is not in the local cache {constants.HF_HUB_CACHE}", hint=hint)
    return Path(cached_file).parent


def read_checkpoint(folder: Path, name: str | None = None) -> ModelCheckpoint:
    """Read all facts of a checkpoint from its files.

    Args:
        folder: The folder of the checkpoint.
        name: Name of the model; default: the name of the folder.

    Raises:
        UsageError: If there is no usable config.json.
    """
    config = _config(folder)
    text_config = _text_config(config)
    # A multimodal checkpoint has the settings of its language model in a part of its own.
    merged = {**config, **text_config}
    tokenizer = as_dict(_json(folder / "tokenizer_config.json"))
    quantization, warnings = read_quantization(merged, _json(folder / LEGACY_FILE))
    if name is None:
        name = folder.resolve().name
    weight_bytes = _weights(folder)
    size_in_name = _SIZE_IN_NAME.search(name)
    if weight_bytes is None and size_in_name is not None:
        weight_bytes = _estimated_weights(size_in_name, quantization)
        warnings.append(
            f"there are no weights here; their size is estimated from the name ({size_in_name[0]})"
        )
    context, rope_scaling = _context(merged, tokenizer)
    if context is None:
        warnings.append("config.json does not say how long the context is")
    template = _template(folder)
    parser_file, parser_name = _parser_plugin(folder)
    return ModelCheckpoint(
        path=str(folder),
        name=name,
        model_type=str(config.get("model_type") or ""),
        architectures=_architectures(config),
        quantization=quantization,
        dtype=_dtype(merged),
        context=context,
        rope_scaling=rope_scaling,
        custom_code=_has_custom_code(config, text_config),
        heads=_first(merged, ("num_attention_heads", "n_head", "n_heads")),
        kv_heads=_first(merged, ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")),
        intermediate=_first(merged, ("moe_intermediate_size", "intermediate_size")),
        experts=_experts(merged),
        vision=any(config.get(key) is not None for key in known_names("vision")),
        chat_template=_has_template(folder, template),
        thinks=any(marker in template for marker in _THINKING_MARKERS),
        tools="tool" in template,
        weight_bytes=weight_bytes,
        generation=_sampling(folder),
        warnings=tuple(warnings),
        mistral_format=not (folder / "config.json").is_file(),
        parser_file=parser_file,
        parser_name=parser_name,
    )


def _estimated_weights(size_in_name: re.Match[str], quantization: Quantization) -> int:
    """Return the size of the weights in bytes that the size in a model's name implies, such as ``7B``."""
    weights = float(size_in_name[1]) * 1e9
    return int(weights * quantization.bytes_per_weight)


def _architectures(config: JsonDict) -> tuple[str, ...]:
    """Return the names of the model's classes."""
    return tuple(map(str, as_list(config.get("architectures"))))


def _has_custom_code(config: JsonDict, text_config: JsonDict) -> bool:
    """Return whether the checkpoint brings Python code of its own."""
    return bool(config.get("auto_map") or text_config.get("auto_map"))


def _text_config(config: JsonDict) -> JsonDict:
    """Return the settings of the language model, which may be one or two levels down."""
    text_config = config
    for key in known_names("text"):
        if isinstance(config.get(key), dict):
            text_config = config[key]
            break
    return as_dict(text_config.get("text_config")) or text_config


def _has_template(folder: Path, template: str) -> bool | None:
    """Return whether a checkpoint has a chat template; None if it has no settings of a tokenizer either."""
    if template:
        return True
    if (folder / "tokenizer_config.json").is_file():
        return False
    return None


def _dtype(config: JsonDict) -> str | None:
    """Return the number format of weights that are not quantized; None if it is not given."""
    dtype = config.get("dtype") or config.get("torch_dtype")
    if not dtype:
        return None
    return str(dtype).removeprefix("torch.")


def _experts(config: JsonDict) -> int:
    """Return the number of experts; 0 for a model that is not a mixture of experts."""
    names = known_names("experts")
    experts = _first(config, names) or _first(as_dict(config.get("ffn_config")), names)
    if experts is None or experts == 1:
        return 0
    return experts


def _sampling(folder: Path) -> JsonDict:
    """Return the sampling settings that the checkpoint recommends."""
    settings = as_dict(_json(folder / "generation_config.json"))
    sampling_names = known_names("sampling")
    return {name: value for name, value in settings.items() if name in sampling_names}


def _config(folder: Path) -> JsonDict:
    """Read config.json; the error for a folder without one names the format that it has instead."""
    settings = _json(folder / "config.json")
    if isinstance(settings, dict) and settings:
        return settings
    if settings is not None:
        raise UsageError(
            f"{folder / 'config.json'} holds no settings", hint="download the checkpoint again"
        )
    mistral = as_dict(_json(folder / "params.json"))
    if mistral.get("dim") and mistral.get("n_heads"):
        return _from_mistral(mistral)
    for pattern, contents, fix in read_data("other_forms.yaml"):
        if any(folder.glob(pattern)):
            raise UsageError(f"{folder} holds {contents}, not a Hugging Face checkpoint", hint=fix)
    raise UsageError(
        f"{folder} has no config.json", hint="give the folder of a Hugging Face checkpoint"
    )


def _from_mistral(params: JsonDict) -> JsonDict:
    """Return the settings of Mistral's params.json under the names of config.json."""
    config: JsonDict = {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    for name, new_name in known_names("mistral").items():
        if params.get(name) is not None:
            config[new_name] = params[name]
    config.update(as_dict(params.get("moe")))
    weight_format = as_dict(params.get("quantization")).get("qformat_weight")
    if weight_format:
        config["quantization_config"] = {"quant_method": str(weight_format).partition("_")[0]}
    return config


def _parser_plugin(folder: Path) -> tuple[str | None, str | None]:
    """Return the file of a checkpoint that holds a reasoning parser, and the parser's name; nothing is executed."""
    for path in sorted(folder.glob("*.py")):
        if path.stat().st_size > _LARGEST_FILE:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        registered = _REGISTERED_PARSER.search(text)
        if registered is not None:
            return path.name, registered[1]
    return None, None


def _json(path: Path) -> Any:
    """Parse a JSON file; None if the file does not exist."""
    if not path.is_file():
        return None
    if path.stat().st_size > _LARGEST_FILE:
        hint = "is it a file of weights under a wrong name?"
        raise UsageError(f"{path} is too large to be a settings file", hint=hint)
    try:
        return json.loads(path.read_bytes())
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path} is not JSON: {error}", hint="was the download cut off? fetch it again"
        ) from error


def _first(data: JsonDict, keys: Iterable[str]) -> int | None:
    """Return the first positive whole number among several keys."""
    for key in keys:
        number = as_whole(data.get(key))
        if number is not None and number > 0:
            return number
    return None


def _context(config: JsonDict, tokenizer: JsonDict) -> tuple[int | None, str | None]:
    """Return the longest context with RoPE scaling, and the kind of scaling that extends it, if any."""
    length = _first(config, known_names("context"))
    if length is None:
        # Some tokenizers write 10**30 for "unknown".
        limit = as_whole(tokenizer.get("model_max_length"))
        if limit is None or not 0 < limit < _LONGEST_KNOWN_CONTEXT:
            return None, None
        return limit, None
    scaling = as_dict(config.get("rope_scaling") or config.get("rope_parameters"))
    kind = str(scaling.get("rope_type") or scaling.get("type") or "")
    factor = as_number(scaling.get("factor")) or 1.0
    if not kind or kind in known_names("included_scaling") or factor <= 1:
        return length, None
    trained_length = as_whole(scaling.get("original_max_position_embeddings")) or length
    return max(length, int(trained_length * factor)), kind


def _template(folder: Path) -> str:
    """Return all chat templates of a checkpoint as one text; empty if there are none."""
    templates: list[str] = []
    tokenizer = as_dict(_json(folder / "tokenizer_config.json"))
    if tokenizer.get("chat_template"):
        templates.append(str(tokenizer["chat_template"]))
    for path in folder.glob("chat_template.j*"):
        text = path.read_text(encoding="utf-8", errors="replace")
        if text:
            templates.append(text)
    return "\n".join(templates)


def _weights(folder: Path) -> int | None:
    """Return the size of the weights in bytes; None if there are no weights."""
    index = as_dict(_json(folder / "model.safetensors.index.json"))
    indexed_bytes = as_whole(as_dict(index.get("metadata")).get("total_size"))
    if indexed_bytes:
        return indexed_bytes
    files = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    file_bytes = sum(path.stat().st_size for path in files)
    return file_bytes or None
