"""A checkpoint read from its JSON files alone: nothing of it is imported or executed."""

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
    """``method`` None: not quantized. ``layers`` counts algorithms where they are mixed."""

    method: str | None = None
    algorithm: str | None = None
    kv_cache: str | None = None
    source: str | None = None
    block: int | None = None
    layers: dict[str, int] = field(default_factory=dict)

    @property
    def bytes_per_weight(self) -> float:
        """Of all layers on average."""
        names = self.layers or {self.algorithm or "": 1}
        known = _known("bytes_per_weight").items()
        sizes = [
            next((size for part, size in known if part in name), 2.0) * count
            for name, count in names.items()
        ]
        return sum(sizes) / sum(names.values())

    @property
    def facts(self) -> set[str]:
        """What rules for engines may ask for."""
        text = f"{self.algorithm} {self.method}".lower()
        mixed = len(self.layers) > 1
        named: set[str] = set()
        for word in ("fp8", "nvfp4", "mxfp4", "awq", "gptq"):
            if word in text and not mixed:
                named.add(word)
        parts = {
            "modelopt": self.method == "modelopt",
            "mixed": mixed,
            "kv_cache": self.kv_cache is not None,
        }
        parts |= {"quantized": self.method is not None, "legacy_file": self.source == _LEGACY}
        return named | {name for name, true in parts.items() if true}


def read_quantization(config: JsonDict, legacy: Any) -> tuple[Quantization, list[str]]:
    """What config.json says, else the older hf_quant_config.json; and where the two disagree."""
    old = Quantization()
    block = as_dict(config.get("quantization_config") or config.get("compression_config"))
    older = as_dict(as_dict(legacy).get("quantization"))
    if older:
        old = replace(_read({"quant_method": "modelopt", **older}), source=_LEGACY)
        if not older.get("quant_algo"):
            # Of some checkpoints the KV cache alone was calibrated.
            if old.kv_cache:
                old = replace(old, method=None, algorithm=None)
            else:
                old = Quantization()
    if not block:
        return old, []
    new = _read(block)
    warnings = []
    if old.algorithm and new.algorithm != old.algorithm:
        warnings = [
            f"config.json says {new.algorithm}, {_LEGACY} {old.algorithm}; engines read the former"
        ]
    return new, warnings


def _read(block: JsonDict) -> Quantization:
    method = str(
        block.get("quant_method")
        or ("modelopt" if block.get("quant_algo") else "compressed-tensors")
    ).lower()
    named = map(as_dict, as_dict(block.get("config_groups")).values())
    schemes: list[str | None] = []
    for one in named:
        schemes.append(_scheme(as_dict(one.get("weights")), as_dict(one.get("input_activations"))))
    groups = Counter(filter(None, schemes))
    layers_by_name = as_dict(block.get("quantized_layers"))
    mixed = Counter(str(as_dict(one).get("quant_algo")).upper() for one in layers_by_name.values())
    size = next((as_whole(one) for one in as_list(block.get("weight_block_size"))), None)
    bits = as_whole(block.get("bits") or block.get("w_bit")) or 4
    if method.startswith("modelopt"):
        method = "modelopt"
        algorithm = str(block.get("quant_algo") or " + ".join(sorted(groups)) or "unknown").upper()
    elif groups:
        algorithm = " + ".join(sorted(groups))
        mixed = groups
    elif method == "bitsandbytes":
        if block.get("load_in_4bit") or block.get("_load_in_4bit"):
            algorithm = "INT4 BNB"
        else:
            algorithm = "INT8 BNB"
    elif "fp8" in method or "mxfp4" in method:
        if "fp8" in method:
            if size:
                algorithm = "FP8 BLOCK"
            else:
                algorithm = "FP8"
        else:
            algorithm = "MXFP4"
    else:
        algorithm = f"INT{bits} {method.partition('_')[0].upper()}"
    kv = block.get("kv_cache_quant_algo") or _scheme(as_dict(block.get("kv_cache_scheme")), {})
    if len(mixed) > 1:
        layers = dict(mixed)
    else:
        layers = {}
    return Quantization(
        method,
        algorithm,
        str(kv).upper() if kv else None,
        source="config.json",
        block=size,
        layers=layers,
    )


def _scheme(weights: JsonDict, activations: JsonDict) -> str | None:
    bits = as_whole(weights.get("num_bits"))
    if bits is None:
        return None
    if str(weights.get("type")) == "float":
        return {4: "NVFP4", 8: "FP8"}.get(bits, f"FP{bits}")
    return f"W{bits}A{as_whole(activations.get('num_bits')) or 16}"


@dataclass(frozen=True, slots=True)
class ModelCheckpoint:
    """What the files say. None: they do not."""

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
    """The folder of a path or a hub name; the latter is looked for in the local Hugging Face cache only."""
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

    found = try_to_load_from_cache(text, "config.json")
    if not isinstance(found, str):
        hint = (
            f"nothing is downloaded here: hf download {text} --include '*.json', or give a folder"
        )
        raise UsageError(f"{text} is not in the local cache {constants.HF_HUB_CACHE}", hint=hint)
    return Path(found).parent


def read_checkpoint(folder: Path, name: str | None = None) -> ModelCheckpoint:
    """Everything that the files tell. Raises UsageError when there is no usable config.json."""
    config = _config(folder)
    text = next(
        (as_dict(config[key]) for key in _known("text") if isinstance(config.get(key), dict)),
        config,
    )
    text = as_dict(text.get("text_config")) or text
    both = {**config, **text}
    legacy = _json(folder / "hf_quant_config.json")
    dtype = both.get("dtype") or both.get("torch_dtype")
    quantization, said = read_quantization(both, legacy)
    context, scaling = _context(both, as_dict(_json(folder / "tokenizer_config.json")))
    name = name or folder.resolve().name
    experts = (
        _first(both, _known("experts"))
        or _first(as_dict(both.get("ffn_config")), _known("experts"))
        or 0
    )
    template = _template(folder)
    sampling = as_dict(_json(folder / "generation_config.json"))
    warnings = list(said)
    weights = _weights(folder)
    if weights is None and (sized := _NAMED_SIZE.search(name)):
        weights = int(float(sized[1]) * 1e9 * quantization.bytes_per_weight)
        warnings.append(
            f"there are no weights here; their size is estimated from the name ({sized[0]})"
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
        rope_scaling=scaling,
        custom_code=bool(config.get("auto_map") or text.get("auto_map")),
        heads=_first(both, ("num_attention_heads", "n_head", "n_heads")),
        kv_heads=_first(both, ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")),
        intermediate=_first(both, ("moe_intermediate_size", "intermediate_size")),
        experts=experts if experts > 1 else 0,
        vision=any(config.get(key) is not None for key in _known("vision")),
        chat_template=bool(template)
        if template or (folder / "tokenizer_config.json").is_file()
        else None,
        thinks=any(
            word in template
            for word in ("<think>", "enable_thinking", "reasoning_effort", "[THINK]")
        ),
        tools="tool" in template,
        weight_bytes=weights,
        generation={key: sampling[key] for key in sampling if key in _known("sampling")},
        warnings=tuple(warnings),
    )


def _known(what: str) -> Any:
    """Names that files use, as ``data/checkpoint.yaml`` has them."""
    return read_data("checkpoint.yaml")[what]


def _config(folder: Path) -> JsonDict:
    found = _json(folder / "config.json")
    if isinstance(found, dict) and found:
        return found
    if found is not None:
        raise UsageError(
            f"{folder / 'config.json'} holds no settings", hint="download the checkpoint again"
        )
    for pattern, what, fix in read_data("other_forms.yaml"):
        if any(folder.glob(pattern)):
            raise UsageError(f"{folder} holds {what}, not a Hugging Face checkpoint", hint=fix)
    raise UsageError(
        f"{folder} has no config.json", hint="give the folder of a Hugging Face checkpoint"
    )


def _json(path: Path) -> Any:
    """The data of a file; None when there is none."""
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
    found = (as_whole(data.get(key)) for key in keys)
    return next((value for value in found if value is not None and value > 0), None)


def _context(config: JsonDict, tokenizer: JsonDict) -> tuple[int | None, str | None]:
    """The longest context with RoPE scaling, and the kind of scaling where it is stretched beyond training."""
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
    parts = [str(as_dict(_json(folder / "tokenizer_config.json")).get("chat_template") or "")]
    for path in folder.glob("chat_template.j*"):
        parts.append(path.read_text(encoding="utf-8", errors="replace"))
    return "\n".join(filter(None, parts))


def _weights(folder: Path) -> int | None:
    index = as_dict(_json(folder / "model.safetensors.index.json"))
    total = as_whole(as_dict(index.get("metadata")).get("total_size"))
    files = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    return total or sum(path.stat().st_size for path in files) or None
