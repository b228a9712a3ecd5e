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
        counts_by_algorithm = self.layers or {self.algorithm or "": 1}
        bytes_by_format = _known("bytes_per_weight").items()
        weighted_sizes = [
            next(
                (size for number_format, size in bytes_by_format if number_format in algorithm), 2.0
            )
            * count
            for algorithm, count in counts_by_algorithm.items()
        ]
        return sum(weighted_sizes) / sum(counts_by_algorithm.values())

    @property
    def facts(self) -> set[str]:
        """The facts that the rules for inference engines can test."""
        text = f"{self.algorithm} {self.method}".lower()
        mixed = len(self.layers) > 1
        number_formats: set[str] = set()
        for number_format in ("fp8", "nvfp4", "mxfp4", "awq", "gptq"):
            if number_format in text and not mixed:
                number_formats.add(number_format)
        flags = {
            "modelopt": self.method == "modelopt",
            "mixed": mixed,
            "kv_cache": self.kv_cache is not None,
        }
        flags |= {"quantized": self.method is not None, "legacy_file": self.source == _LEGACY}
        return number_formats | {flag for flag, is_set in flags.items() if is_set}


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
    method = str(
        block.get("quant_method")
        or ("modelopt" if block.get("quant_algo") else "compressed-tensors")
    ).lower()
    group_settings = map(as_dict, as_dict(block.get("config_groups")).values())
    schemes: list[str | None] = []
    for entry in group_settings:
        schemes.append(
            _scheme(as_dict(entry.get("weights")), as_dict(entry.get("input_activations")))
        )
    scheme_counts = Counter(filter(None, schemes))
    layers_by_name = as_dict(block.get("quantized_layers"))
    algorithm_counts = Counter(
        str(as_dict(entry).get("quant_algo")).upper() for entry in layers_by_name.values()
    )
    block_size = next((as_whole(entry) for entry in as_list(block.get("weight_block_size"))), None)
    bits = as_whole(block.get("bits") or block.get("w_bit")) or 4
    if method.startswith("modelopt"):
        method = "modelopt"
        algorithm = str(
            block.get("quant_algo") or " + ".join(sorted(scheme_counts)) or "unknown"
        ).upper()
    elif scheme_counts:
        algorithm = " + ".join(sorted(scheme_counts))
        algorithm_counts = scheme_counts
    elif method == "bitsandbytes":
        if block.get("load_in_4bit") or block.get("_load_in_4bit"):
            algorithm = "INT4 BNB"
        else:
            algorithm = "INT8 BNB"
    elif "fp8" in method or "mxfp4" in method:
        if "fp8" in method:
            if block_size:
                algorithm = "FP8 BLOCK"
            else:
                algorithm = "FP8"
        else:
            algorithm = "MXFP4"
    else:
        algorithm = f"INT{bits} {method.partition('_')[0].upper()}"
    kv_cache = block.get("kv_cache_quant_algo") or _scheme(
        as_dict(block.get("kv_cache_scheme")), {}
    )
    if len(algorithm_counts) > 1:
        layers = dict(algorithm_counts)
    else:
        layers = {}
    return Quantization(
        method,
        algorithm,
        str(kv_cache).upper() if kv_cache else None,
        source="config.json",
        block=block_size,
        layers=layers,
    )


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
    text_config = next(
        (as_dict(config[key]) for key in _known("text") if isinstance(config.get(key), dict)),
        config,
    )
    text_config = as_dict(text_config.get("text_config")) or text_config
    merged = {**config, **text_config}
    legacy = _json(folder / "hf_quant_config.json")
    dtype = merged.get("dtype") or merged.get("torch_dtype")
    quantization, disagreements = read_quantization(merged, legacy)
    context, rope_scaling = _context(merged, as_dict(_json(folder / "tokenizer_config.json")))
    name = name or folder.resolve().name
    experts = (
        _first(merged, _known("experts"))
        or _first(as_dict(merged.get("ffn_config")), _known("experts"))
        or 0
    )
    template = _template(folder)
    sampling = as_dict(_json(folder / "generation_config.json"))
    warnings = list(disagreements)
    weight_bytes = _weights(folder)
    if weight_bytes is None and (size_match := _NAMED_SIZE.search(name)):
        weight_bytes = int(float(size_match[1]) * 1e9 * quantization.bytes_per_weight)
        warnings.append(
            f"there are no weights here; their size is estimated from the name ({size_match[0]})"
        )
    if context is None:
        warnings.append("config.json does not say how long the context is")
    return ModelCheckpoint(
        path=str(folder),
        name=name,
        model_type=str(config.get("model_type") or ""),
        architectures=tuple(map(str, as_list(config.get("architectures")))),
        quantization=quantization,
        dtype=str(dtype).removeprefix("torch.") if dtype else None,
        context=context,
        rope_scaling=rope_scaling,
        custom_code=bool(config.get("auto_map") or text_config.get("auto_map")),
        heads=_first(merged, ("num_attention_heads", "n_head", "n_heads")),
        kv_heads=_first(merged, ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")),
        intermediate=_first(merged, ("moe_intermediate_size", "intermediate_size")),
        experts=experts if experts > 1 else 0,
        vision=any(config.get(key) is not None for key in _known("vision")),
        chat_template=bool(template)
        if template or (folder / "tokenizer_config.json").is_file()
        else None,
        thinks=any(
            marker in template
            for marker in ("<think>", "enable_thinking", "reasoning_effort", "[THINK]")
        ),
        tools="tool" in template,
        weight_bytes=weight_bytes,
        generation={key: sampling[key] for key in sampling if key in _known("sampling")},
        warnings=tuple(warnings),
    )


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
    numbers = (as_whole(data.get(key)) for key in keys)
    return next((number for number in numbers if number is not None and number > 0), None)


def _context(config: JsonDict, tokenizer: JsonDict) -> tuple[int | None, str | None]:
    """Return the longest context with RoPE scaling, and the kind of scaling that extends it, if any."""
    length = _first(config, _known("context"))
    scaling = as_dict(config.get("rope_scaling") or config.get("rope_parameters"))
    kind = str(scaling.get("rope_type") or scaling.get("type") or "")
    factor = as_number(scaling.get("factor")) or 1.0
    if length is None:
        # Some tokenizers write 10**30 for "unknown".
        limit = as_whole(tokenizer.get("model_max_length"))
        return (limit if limit is not None and 0 < limit < 10**8 else None), None
    if not kind or kind in _known("included_scaling") or factor <= 1:
        return length, None
    trained = as_whole(scaling.get("original_max_position_embeddings")) or length
    return max(length, int(trained * factor)), kind


def _template(folder: Path) -> str:
    """Return all chat templates of a checkpoint as one text; empty if there are none."""
    parts = [str(as_dict(_json(folder / "tokenizer_config.json")).get("chat_template") or "")]
    for path in folder.glob("chat_template.j*"):
        parts.append(path.read_text(encoding="utf-8", errors="replace"))
    return "\n".join(filter(None, parts))


def _weights(folder: Path) -> int | None:
    """Return the size of the weights in bytes; None if there are no weights."""
    index = as_dict(_json(folder / "model.safetensors.index.json"))
    total_bytes = as_whole(as_dict(index.get("metadata")).get("total_size"))
    files = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    return total_bytes or sum(path.stat().st_size for path in files) or None
