"""How the weights of a checkpoint are quantized, in whichever of the usual places that is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict, as_list, as_whole
from nemo_evaluator.core.types import JsonDict

# Bytes of one weight, scales included; by a part of the algorithm's name, the first that fits.
_BYTES: Final = (
    ("NVFP4", 0.58),
    ("MXFP4", 0.55),
    ("W4", 0.55),
    ("INT4", 0.55),
    ("INT3", 0.42),
    ("FP8", 1.0),
    ("INT8", 1.0),
    ("W8", 1.0),
)
_PLAIN: Final = 2.0


@dataclass(frozen=True, slots=True)
class Quantization:
    """``method`` None: not quantized. ``layers`` counts algorithms where they are mixed."""

    method: str | None = None
    algorithm: str | None = None
    kv_cache: str | None = None
    source: str | None = None
    block: int | None = None
    bytes_per_weight: float = _PLAIN
    layers: dict[str, int] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()

    @property
    def facts(self) -> set[str]:
        """What rules for engines may ask for."""
        algorithm, method = self.algorithm or "", self.method or ""
        named = {word for word in ("fp8", "nvfp4", "mxfp4", "awq", "gptq") if word in f"{algorithm} {method}".lower()}
        parts = {"modelopt": method == "modelopt", "mixed": len(self.layers) > 1, "kv_cache": bool(self.kv_cache)}
        parts |= {"quantized": self.method is not None, "legacy_file": self.source == "hf_quant_config.json"}
        return (set() if len(self.layers) > 1 else named) | {name for name, true in parts.items() if true}


def read_quantization(config: JsonDict, legacy: Any) -> tuple[Quantization, list[str]]:
    """What config.json says, else the older hf_quant_config.json; and where the two disagree."""
    block, older = as_dict(config.get("quantization_config") or config.get("compression_config")), as_dict(legacy)
    old = _legacy(as_dict(older.get("quantization"))) if older.get("quantization") else Quantization()
    if not block:
        return old, []
    new = _modern(block)
    warnings = []
    if old.algorithm and new.algorithm and old.algorithm != new.algorithm:
        warnings.append(
            f"config.json says {new.algorithm}, hf_quant_config.json {old.algorithm}; engines read the former"
        )
    return new, warnings


def _modern(block: JsonDict) -> Quantization:
    method = str(block.get("quant_method") or "").lower()
    kv = block.get("kv_cache_quant_algo") or _scheme(as_dict(block.get("kv_cache_scheme")))
    size = next((as_whole(one) for one in as_list(block.get("weight_block_size"))), None)
    layers: dict[str, int] = {}
    if method.startswith("modelopt") or (not method and block.get("quant_algo")):
        method, layers = "modelopt", _mixed(block)
        algorithm = str(block.get("quant_algo") or _group_names(block) or "unknown").upper()
    elif method in ("awq", "gptq", "auto-round", "gptq_marlin", "awq_marlin"):
        bits = as_whole(block.get("bits") or block.get("w_bit")) or 4
        algorithm = f"INT{bits} {method.partition('_')[0].upper()}"
    elif method == "compressed-tensors" or block.get("config_groups"):
        method = method or "compressed-tensors"
        names = Counter(_groups(block))
        layers = dict(names) if len(names) > 1 else {}
        algorithm = _group_names(block) or "unknown"
    elif method == "bitsandbytes":
        algorithm = "INT4 BNB" if block.get("load_in_4bit") or block.get("_load_in_4bit") else "INT8 BNB"
    else:
        algorithm = {"fp8": "FP8", "fbgemm_fp8": "FP8", "mxfp4": "MXFP4"}.get(method, method.upper() or "unknown")
    if size and algorithm == "FP8":
        algorithm = "FP8 BLOCK"
    excluded = block.get("ignore") or block.get("exclude_modules") or block.get("modules_to_not_convert")
    return _quantization(method or "unknown", algorithm, kv, "config.json", layers, excluded, size)


def _legacy(block: JsonDict) -> Quantization:
    algorithm = block.get("quant_algo")
    kv, excluded = block.get("kv_cache_quant_algo"), block.get("exclude_modules")
    if not algorithm:
        # A checkpoint whose KV cache alone was calibrated.
        return Quantization(kv_cache=str(kv), source="hf_quant_config.json") if kv else Quantization()
    return _quantization("modelopt", str(algorithm).upper(), kv, "hf_quant_config.json", _mixed(block), excluded, None)


def _quantization(
    method: str, algorithm: str, kv: Any, source: str, layers: dict[str, int], excluded: Any, block: int | None
) -> Quantization:
    total = sum(layers.values())
    size = sum(_size(name) * count for name, count in layers.items()) / total if total else _size(algorithm)
    names = tuple(map(str, as_list(excluded)))
    return Quantization(method, algorithm, str(kv).upper() if kv else None, source, block, size, layers, names)


def _mixed(block: JsonDict) -> dict[str, int]:
    """Algorithms by the number of layers that have them, of a checkpoint in mixed precision."""
    layers = as_dict(block.get("quantized_layers")).values()
    return dict(Counter(str(as_dict(one).get("quant_algo") or "unknown").upper() for one in layers))


def _groups(block: JsonDict) -> Iterator[str]:
    for group in as_dict(block.get("config_groups")).values():
        weights = as_dict(as_dict(group).get("weights"))
        if weights:
            yield _scheme(weights, activations=as_dict(as_dict(group).get("input_activations"))) or "unknown"


def _group_names(block: JsonDict) -> str:
    return " + ".join(sorted(set(_groups(block))))


def _scheme(scheme: JsonDict, activations: JsonDict | None = None) -> str | None:
    bits = as_whole(scheme.get("num_bits"))
    if bits is None:
        return None
    if str(scheme.get("type")) == "float":
        return {4: "NVFP4", 8: "FP8"}.get(bits, f"FP{bits}")
    return (
        f"W{bits}A{(activations and as_whole(activations.get('num_bits'))) or 16}"
        if activations is not None
        else f"INT{bits}"
    )


def _size(algorithm: str) -> float:
    return next((size for part, size in _BYTES if part in algorithm), _PLAIN)
