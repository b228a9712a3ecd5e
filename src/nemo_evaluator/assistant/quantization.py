"""How the weights of a checkpoint are quantized, in whichever of the usual places that is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict, as_list, as_whole
from nemo_evaluator.core.types import JsonDict

# Bytes of one weight, scales included; by a part of the algorithm's name, the first that fits.
_BYTES: Final = {
    "NVFP4": 0.58,
    "MXFP4": 0.55,
    "W4": 0.55,
    "INT4": 0.55,
    "INT3": 0.42,
    "FP8": 1.0,
    "INT8": 1.0,
    "W8": 1.0,
}
_LEGACY: Final = "hf_quant_config.json"


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
        sizes = {name: next((size for part, size in _BYTES.items() if part in name), 2.0) for name in names}
        return sum(sizes[name] * count for name, count in names.items()) / sum(names.values())

    @property
    def facts(self) -> set[str]:
        """What rules for engines may ask for."""
        text, mixed = f"{self.algorithm} {self.method}".lower(), len(self.layers) > 1
        named = {word for word in ("fp8", "nvfp4", "mxfp4", "awq", "gptq") if word in text and not mixed}
        parts = {"modelopt": self.method == "modelopt", "mixed": mixed, "kv_cache": self.kv_cache is not None}
        parts |= {"quantized": self.method is not None, "legacy_file": self.source == _LEGACY}
        return named | {name for name, true in parts.items() if true}


def read_quantization(config: JsonDict, legacy: Any) -> tuple[Quantization, list[str]]:
    """What config.json says, else the older hf_quant_config.json; and where the two disagree."""
    old, block = Quantization(), as_dict(config.get("quantization_config") or config.get("compression_config"))
    if older := as_dict(as_dict(legacy).get("quantization")):
        old = replace(_read({"quant_method": "modelopt", **older}), source=_LEGACY)
        if not older.get("quant_algo"):
            # Of some checkpoints the KV cache alone was calibrated.
            old = replace(old, method=None, algorithm=None) if old.kv_cache else Quantization()
    if not block:
        return old, []
    new, warnings = _read(block), []
    if old.algorithm and new.algorithm != old.algorithm:
        warnings = [f"config.json says {new.algorithm}, {_LEGACY} {old.algorithm}; engines read the former"]
    return new, warnings


def _read(block: JsonDict) -> Quantization:
    method = str(block.get("quant_method") or ("modelopt" if block.get("quant_algo") else "compressed-tensors")).lower()
    groups = Counter(_groups(block))
    mixed = Counter(
        str(as_dict(one).get("quant_algo")).upper() for one in as_dict(block.get("quantized_layers")).values()
    )
    size = next((as_whole(one) for one in as_list(block.get("weight_block_size"))), None)
    bits = as_whole(block.get("bits") or block.get("w_bit")) or 4
    if method.startswith("modelopt"):
        method = "modelopt"
        algorithm = str(block.get("quant_algo") or " + ".join(sorted(groups)) or "unknown").upper()
    elif groups:
        algorithm, mixed = " + ".join(sorted(groups)), groups
    elif method == "bitsandbytes":
        algorithm = "INT4 BNB" if block.get("load_in_4bit") or block.get("_load_in_4bit") else "INT8 BNB"
    elif "fp8" in method or "mxfp4" in method:
        algorithm = ("FP8 BLOCK" if size else "FP8") if "fp8" in method else "MXFP4"
    else:
        algorithm = f"INT{bits} {method.partition('_')[0].upper()}"
    kv = block.get("kv_cache_quant_algo") or _scheme(as_dict(block.get("kv_cache_scheme")), {})
    layers = dict(mixed) if len(mixed) > 1 else {}
    return Quantization(method, algorithm, str(kv).upper() if kv else None, "config.json", size, layers)


def _groups(block: JsonDict) -> Iterator[str]:
    for group in map(as_dict, as_dict(block.get("config_groups")).values()):
        if found := _scheme(as_dict(group.get("weights")), as_dict(group.get("input_activations"))):
            yield found


def _scheme(weights: JsonDict, activations: JsonDict) -> str | None:
    bits = as_whole(weights.get("num_bits"))
    if bits is None:
        return None
    if str(weights.get("type")) == "float":
        return {4: "NVFP4", 8: "FP8"}.get(bits, f"FP{bits}")
    return f"W{bits}A{as_whole(activations.get('num_bits')) or 16}"
