"""The C++ server of llama.cpp in a Python process, with the few arguments of ``llama-server`` that nel uses."""

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path

# A minimal Debian has no OpenMP library; `make setup` stores one here, under the name that xllamacpp loads.
_OPENMP = Path(sys.prefix) / "lib" / "nel" / "libgomp.so.1"
if _OPENMP.exists():
    ctypes.CDLL(str(_OPENMP), mode=ctypes.RTLD_GLOBAL)

try:
    import xllamacpp
except ImportError as error:
    fix = "; apt-get install libgomp1" if "libgomp" in str(error) else ""
    sys.exit(f"xllamacpp does not load: {error}{fix}")


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    options = _options()
    server = xllamacpp.Server(_params(options))
    print(f"listening at {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="xllamacpp server", allow_abbrev=False)
    for name in ("--model", "--alias", "--host"):
        parser.add_argument(name, required=True)
    parser.add_argument("--api-key-file")
    for name in ("--port", "--ctx-size", "--parallel", "--threads"):
        parser.add_argument(name, required=True, type=int)
    return parser.parse_args()


def _params(options: argparse.Namespace) -> "xllamacpp.CommonParams":
    """The settings of the server."""
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.alias}
    params.hostnames = [options.host]
    params.port = options.port
    params.n_ctx = options.ctx_size
    params.n_parallel = options.parallel
    if options.api_key_file:
        params.api_keys = Path(options.api_key_file).read_text().split()
    else:
        params.api_keys = [os.environ.pop("LLAMA_API_KEY")]
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = options.threads
        cpu.poll = 0
    params.endpoint_metrics = True
    params.ui = False
    return params


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
