#!/usr/bin/env python3
"""Runs a WebAssembly program under PyPI's wasmtime, with this environment's ATTN_ variables: wasm.py PROGRAM [ARGUMENT ..]"""
import os
import sys

import wasmtime


def main():
    engine = wasmtime.Engine()
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    store = wasmtime.Store(engine)
    wasi = wasmtime.WasiConfig()
    wasi.argv = sys.argv[1:]
    wasi.env = [(k, v) for k, v in os.environ.items() if k.startswith("ATTN_")]
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    store.set_wasi(wasi)
    try:
        program = linker.instantiate(store, wasmtime.Module.from_file(engine, sys.argv[1]))
        program.exports(store)["_start"](store)
    except wasmtime.ExitTrap as e:
        return e.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
