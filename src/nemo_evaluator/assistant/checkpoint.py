"""Read a checkpoint's facts from its JSON files alone; none of its code is imported or executed."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.assistant.recipes import read_data
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_list, as_number, as_whole
from nemo_evaluator.core.types import JsonDict

_LEGACY: Final = "hf_quant_config.json"
_LARGEST: Final = 64 * 1024**2
# Texts in the chat templates of models that can reason before they answer.
_THINKING_MARKERS: Final = ("<think>", "enable_thinking", "reasoning_effort", "[THINK]")
_NAMED_SIZE: Final = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the weights of a checkpoint are quantized.

    Attributes:
        method: The quantization method; None: the weights are not quantized.
        algorithm: The number format or algorithm, such as ``FP8``.
        kv_cache: The format of the KV cache, if it is quantized.
        source: The file that says so.
        block: Size of the blocks of weights that share a scale.
        layers: Number of layers per algorithm, if the layers differ.
    """

    method: str | None = None
    algorithm: str | None = None
    kv_cache: str | None = None
    source: str | None = None
    block: int | None = None
    layers: dict[str, int] = field(default_factory=dict)

    @property
    def bytes_per_weight(self) -> float:
        """The mean number of bytes per weight over all layers."""
        layers_of_algorithm = self.layers or {self.algorithm or "": 1}
        total_bytes = 0.0
        for algorithm, layers in layers_of_algorithm.items():
            total_bytes += _bytes_per_weight(algorithm) * layers
        return total_bytes / sum(layers_of_algorithm.values())

    @property
    def facts(self) -> set[str]:
        """The facts that the rules for inference engines can test."""
        facts: set[str] = set()
        if len(self.layers) > 1:
            facts.add("mixed")
        else:
            text = f"{self.algorithm} {self.method}".lower()
            for number_format in ("fp8", "nvfp4", "mxfp4", "awq", "gptq"):
                if number_format in text:
                    facts.add(number_format)
        if self.method is not None:
            facts.add("quantized")
        if self.method == "modelopt":
            facts.add("modelopt")
        if self.kv_cache is not None:
            facts.add("kv_cache")
        if self.source == _LEGACY:
            facts.add("legacy_file")
        return facts


def read_quantization(config: JsonDict, legacy: Any) -> tuple[Quantization, list[str]]:
    """Read how a checkpoint is quantized.

    Args:
        config: The settings of config.json.
        legacy: The data of the older hf_quant_config.json, used if config.json does not mention quantization.

    Returns:
        The quantization, and a warning if the two files disagree.
    """
    earlier = Quantization()
    block = as_dict(config.get("quantization_config") or config.get("compression_config"))
    legacy_block = as_dict(as_dict(legacy).get("quantization"))
    if legacy_block:
        earlier = replace(_read({"quant_method": "modelopt", **legacy_block}), source=_LEGACY)
        if not legacy_block.get("quant_algo"):
            # In some checkpoints only the KV cache is quantized.
            if earlier.kv_cache:
                earlier = replace(earlier, method=None, algorithm=None)
            else:
                earlier = Quantization()
    if not block:
        return earlier, []
    quantization = _read(block)
    warnings = []
    if earlier.algorithm and quantization.algorithm != earlier.algorithm:
        warnings = [
            f"config.json says {quantization.algorithm}, {_LEGACY} {earlier.algorithm}; engines read the former"
        ]
    return quantization, warnings


def _read(block: JsonDict) -> Quantization:
    """Read a ``quantization_config`` block, in any of the formats of the quantization tools."""
    default_method = "modelopt" if block.get("quant_algo") else "compressed-tensors"
    method = str(block.get("quant_method") or default_method).lower()
    group_schemes = _group_schemes(block)
    block_sizes = as_list(block.get("weight_block_size"))
    block_size = as_whole(block_sizes[0]) if block_sizes else None
    layers = _algorithms_of_layers(block)
    if method.startswith("modelopt"):
        method = "modelopt"
        named_algorithm = block.get("quant_algo") or " + ".join(sorted(group_schemes))
        algorithm = str(named_algorithm or "unknown").upper()
    elif group_schemes:
        algorithm = " + ".join(sorted(group_schemes))
        layers = group_schemes
    else:
        algorithm = _algorithm_of_method(method, block, block_size)
    kv_scheme = _scheme(as_dict(block.get("kv_cache_scheme")), {})
    kv_cache = block.get("kv_cache_quant_algo") or kv_scheme
    return Quantization(
        method,
        algorithm,
        str(kv_cache).upper() if kv_cache else None,
        source="config.json",
        block=block_size,
        layers=dict(layers) if len(layers) > 1 else {},
    )


def _group_schemes(block: JsonDict) -> Counter[str]:
    """Count the compressed-tensors schemes of a block's groups of layers."""
    schemes: Counter[str] = Counter()
    for group in as_dict(block.get("config_groups")).values():
        settings = as_dict(group)
        weights = as_dict(settings.get("weights"))
        scheme = _scheme(weights, as_dict(settings.get("input_activations")))
        if scheme is not None:
            schemes[scheme] += 1
    return schemes


def _algorithms_of_layers(block: JsonDict) -> Counter[str]:
    """Count the algorithms of the layers that a block lists one by one."""
    algorithms: Counter[str] = Counter()
    for layer in as_dict(block.get("quantized_layers")).values():
        algorithms[str(as_dict(layer).get("quant_algo")).upper()] += 1
    return algorithms


def _algorithm_of_method(method: str, block: JsonDict, block_size: int | None) -> str:
    """Name the algorithm of a method that does not name it itself."""
    if method == "bitsandbytes":
        four_bits = block.get("load_in_4bit") or block.get("_load_in_4bit")
        return "INT4 BNB" if four_bits else "INT8 BNB"
    if "fp8" in method:
        return "FP8 BLOCK" if block_size else "FP8"
    if "mxfp4" in method:
        return "MXFP4"
    bits = as_whole(block.get("bits") or block.get("w_bit")) or 4
    return f"INT{bits} {method.partition('_')[0].upper()}"


def _scheme(weights: JsonDict, activations: JsonDict) -> str | None:
    """Name a compressed-tensors scheme by its bits, such as ``FP8`` or ``W4A16``; None if the bits are unknown."""
    bits = as_whole(weights.get("num_bits"))
    if bits is None:
        return None
    if str(weights.get("type")) == "float":
        return {4: "NVFP4", 8: "FP8"}.get(bits, f"FP{bits}")
    return f"W{bits}A{as_whole(activations.get('num_bits')) or 16}"


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
    quantization, warnings = read_quantization(merged, _json(folder / _LEGACY))
    name = name or folder.resolve().name
    weight_bytes = _weights(folder)
    named_size = _NAMED_SIZE.search(name)
    if weight_bytes is None and named_size is not None:
        weight_bytes = _estimated_weights(named_size, quantization)
        warnings.append(
            f"there are no weights here; their size is estimated from the name ({named_size[0]})"
        )
    context, rope_scaling = _context(merged, tokenizer)
    if context is None:
        warnings.append("config.json does not say how long the context is")
    template = _template(folder)
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
        vision=any(config.get(key) is not None for key in _known("vision")),
        chat_template=_has_template(folder, template),
        thinks=any(marker in template for marker in _THINKING_MARKERS),
        tools="tool" in template,
        weight_bytes=weight_bytes,
        generation=_sampling(folder),
        warnings=tuple(warnings),
    )


def _estimated_weights(named_size: re.Match[str], quantization: Quantization) -> int:
    """Return the size of the weights in bytes that the size in a model's name implies, such as ``7B``."""
    weights = float(named_size[1]) * 1e9
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
    for key in _known("text"):
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
    names = _known("experts")
    experts = _first(config, names) or _first(as_dict(config.get("ffn_config")), names)
    if experts is None or experts == 1:
        return 0
    return experts


def _sampling(folder: Path) -> JsonDict:
    """Return the sampling settings that the checkpoint recommends."""
    settings = as_dict(_json(folder / "generation_config.json"))
    known_names = _known("sampling")
    return {name: value for name, value in settings.items() if name in known_names}


def _bytes_per_weight(algorithm: str) -> float:
    """Return the bytes per weight of a number format; 2 for an unknown one."""
    size_of_format: dict[str, float] = _known("bytes_per_weight")
    for number_format, size in size_of_format.items():
        if number_format in algorithm:
            return size
    return 2.0


def _known(what: str) -> Any:
    """Return one table of ``data/checkpoint.yaml``: names of settings, or bytes per weight by number format."""
    return read_data("checkpoint.yaml")[what]


def _config(folder: Path) -> JsonDict:
    """Read config.json; the error for a folder without one names the format that it has instead."""
    settings = _json(folder / "config.json")
    if isinstance(settings, dict) and settings:
        return settings
    if settings is not None:
        raise UsageError(
            f"{folder / 'config.json'} holds no settings", hint="download the checkpoint again"
        )
    for pattern, contents, fix in read_data("other_forms.yaml"):
        if any(folder.glob(pattern)):
            raise UsageError(f"{folder} holds {contents}, not a Hugging Face checkpoint", hint=fix)
    raise UsageError(
        f"{folder} has no config.json", hint="give the folder of a Hugging Face checkpoint"
    )


def _json(path: Path) -> Any:
    """Parse a JSON file; None if the file does not exist."""
    if not path.is_file():
        return None
    if path.stat().st_size > _LARGEST:
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
    length = _first(config, _known("context"))
    if length is None:
        # Some tokenizers write 10**30 for "unknown".
        limit = as_whole(tokenizer.get("model_max_length"))
        is_known = limit is not None and 0 < limit < 10**8
        return (limit if is_known else None), None
    scaling = as_dict(config.get("rope_scaling") or config.get("rope_parameters"))
    kind = str(scaling.get("rope_type") or scaling.get("type") or "")
    factor = as_number(scaling.get("factor")) or 1.0
    if not kind or kind in _known("included_scaling") or factor <= 1:
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
    total_bytes = as_whole(as_dict(index.get("metadata")).get("total_size"))
    files = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    return total_bytes or sum(path.stat().st_size for path in files) or None
