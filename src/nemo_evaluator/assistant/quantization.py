"""How the weights of a checkpoint are quantized, in any of the formats of the quantization tools."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nemo_evaluator.assistant.recipes import read_data
from nemo_evaluator.core.json_coerce import as_dict, as_list, as_whole
from nemo_evaluator.core.types import JsonDict

#: The file in which older versions of one tool describe the quantization.
LEGACY_FILE: Final = "hf_quant_config.json"
_MXFP4_GROUP: Final = 32
_NUMBER_FORMATS: Final = ("fp8", "nvfp4", "mxfp4", "awq", "gptq")


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
            for number_format in _NUMBER_FORMATS:
                if number_format in text:
                    facts.add(number_format)
        if self.method is not None:
            facts.add("quantized")
        if self.method == "modelopt":
            facts.add("modelopt")
        if self.kv_cache is not None:
            facts.add("kv_cache")
        if self.source == LEGACY_FILE:
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
    legacy_quantization = _read_legacy(as_dict(as_dict(legacy).get("quantization")))
    block = as_dict(config.get("quantization_config") or config.get("compression_config"))
    if not block:
        return legacy_quantization, []
    quantization = _read_block(block)
    legacy_algorithm = legacy_quantization.algorithm
    if not legacy_algorithm or legacy_algorithm == quantization.algorithm:
        return quantization, []
    warning = (
        f"config.json says {quantization.algorithm}, {LEGACY_FILE} {legacy_algorithm}; "
        "engines read the former"
    )
    return quantization, [warning]


def _read_legacy(block: JsonDict) -> Quantization:
    """Read the block of the older hf_quant_config.json; an empty block means not quantized."""
    if not block:
        return Quantization()
    quantization = _read_block({"quant_method": "modelopt", **block})
    quantization = replace(quantization, source=LEGACY_FILE)
    if block.get("quant_algo"):
        return quantization
    if quantization.kv_cache:
        # Only the KV cache is quantized.
        return replace(quantization, method=None, algorithm=None)
    return Quantization()


def _read_block(block: JsonDict) -> Quantization:
    """Read a ``quantization_config`` block, in any of the formats of the quantization tools."""
    method = _method(block)
    block_sizes = as_list(block.get("weight_block_size"))
    block_size = as_whole(block_sizes[0]) if block_sizes else None
    group_schemes = _group_schemes(block)
    all_schemes = " + ".join(sorted(group_schemes))
    layers = _algorithms_of_layers(block)
    if method == "modelopt":
        named_algorithm = block.get("quant_algo") or all_schemes
        algorithm = str(named_algorithm or "unknown").upper()
    elif group_schemes:
        algorithm = all_schemes
        layers = group_schemes
    else:
        algorithm = _algorithm_of_method(method, block, block_size)
    layers_differ = len(layers) > 1
    return Quantization(
        method=method,
        algorithm=algorithm,
        kv_cache=_kv_cache(block),
        source="config.json",
        block=block_size,
        layers=dict(layers) if layers_differ else {},
    )


def _method(block: JsonDict) -> str:
    """Return the quantization method; a block that does not name it is recognized by its keys."""
    default_method = "modelopt" if block.get("quant_algo") else "compressed-tensors"
    method = str(block.get("quant_method") or default_method).lower()
    # Some versions write `modelopt_fp4`.
    return "modelopt" if method.startswith("modelopt") else method


def _kv_cache(block: JsonDict) -> str | None:
    """Return the format of the KV cache; None if it is not quantized."""
    named_format = block.get("kv_cache_quant_algo")
    kv_format = named_format or _scheme(as_dict(block.get("kv_cache_scheme")), {})
    return str(kv_format).upper() if kv_format else None


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
    if method == "quark":
        return _quark_algorithm(block)
    if method == "torchao":
        return _torchao_algorithm(block)
    bits = as_whole(block.get("bits") or block.get("w_bit")) or 4
    return f"INT{bits} {method.partition('_')[0].upper()}"


def _quark_algorithm(block: JsonDict) -> str:
    """Name the number format of a Quark block by the data type of its weights, such as ``fp8_e4m3`` or ``int4``."""
    layers = as_dict(block.get("global_quant_config"))
    weights = layers.get("weight")
    # Weights may be quantized in two steps; the last one is stored.
    steps = [as_dict(step) for step in as_list(weights)] or [as_dict(weights)]
    dtype = str(steps[-1].get("dtype") or "").lower()
    if dtype.startswith("fp8"):
        return "FP8 QUARK"
    if dtype.startswith("fp4"):
        return "MXFP4 QUARK"
    return f"{dtype.upper()} QUARK" if dtype else "UNKNOWN QUARK"


def _torchao_algorithm(block: JsonDict) -> str:
    """Name the number format of a torchao block by the name of its configuration class or short name."""
    kind = block.get("quant_type")
    for value in _texts_of(kind):
        text = value.lower().replace("_", "")
        if "float8" in text or text.startswith("fp8"):
            return "FP8 TORCHAO"
        if "nvfp4" in text:
            return "NVFP4 TORCHAO"
        if "mxfp4" in text or "mxdynamic" in text:
            return "MXFP4 TORCHAO"
        found = re.search(r"int([48])weight|int8dynamicactivationint([48])weight", text)
        if found:
            return f"INT{found[1] or found[2]} TORCHAO"
    return "UNKNOWN TORCHAO"


def _texts_of(value: Any) -> Iterator[str]:
    """Yield every text in a nested value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        # The name of the class comes before its settings.
        yield from (str(key) for key in value)
        for item in sorted(value.values(), key=lambda item: not isinstance(item, str)):
            yield from _texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_of(item)


def _scheme(weights: JsonDict, activations: JsonDict) -> str | None:
    """Name a compressed-tensors scheme by its bits, such as ``FP8`` or ``W4A16``; None if the bits are unknown."""
    bits = as_whole(weights.get("num_bits"))
    if bits is None:
        return None
    if str(weights.get("type")) == "float":
        # Both 4-bit formats are floats; MXFP4 has groups of 32 weights, NVFP4 of 16.
        if bits == 4 and as_whole(weights.get("group_size")) == _MXFP4_GROUP:
            return "MXFP4"
        return {4: "NVFP4", 8: "FP8"}.get(bits, f"FP{bits}")
    return f"W{bits}A{as_whole(activations.get('num_bits')) or 16}"


def _bytes_per_weight(algorithm: str) -> float:
    """Return the bytes per weight of a number format; 2 for an unknown one."""
    size_of_format: dict[str, float] = known_names("bytes_per_weight")
    for number_format, size in size_of_format.items():
        if number_format in algorithm:
            return size
    return 2.0


def known_names(table: str) -> Any:
    """Return one table of ``data/checkpoint.yaml``: names of settings, or bytes per weight by number format."""
    return read_data("checkpoint.yaml")[table]
