"""The C++ server of llama.cpp inside a Python process: takes the few arguments of ``llama-server`` that we use."""

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path

# A bare Debian has no OpenMP library; `make setup` keeps one here, which loads under the name that xllamacpp asks for.
_OPENMP = Path(sys.prefix) / "lib" / "nel" / "libgomp.so.1"
if _OPENMP.exists():
    ctypes.CDLL(str(_OPENMP), mode=ctypes.RTLD_GLOBAL)

try:
    import xllamacpp
except ImportError as error:
    sys.exit(
        f"xllamacpp does not load: {error}"
        + ("; apt-get install libgomp1" if "libgomp" in str(error) else "")
    )


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="xllamacpp server", allow_abbrev=False)
    for name in ("--model", "--alias", "--host"):
        parser.add_argument(name, required=True)
    parser.add_argument("--api-key-file")
    for name in ("--port", "--ctx-size", "--parallel", "--threads"):
        parser.add_argument(name, required=True, type=int)
    wanted = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = wanted.model
    params.model_alias = {wanted.alias}
    params.hostnames = [wanted.host]
    params.port = wanted.port
    params.n_ctx = wanted.ctx_size
    params.n_parallel = wanted.parallel
    file = wanted.api_key_file
    if file:
        params.api_keys = Path(file).read_text().split()
    else:
        params.api_keys = [os.environ.pop("LLAMA_API_KEY")]
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = wanted.threads
        cpu.poll = 0
    params.endpoint_metrics = True
    params.ui = False
    server = xllamacpp.Server(params)
    print(f"listening at {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
