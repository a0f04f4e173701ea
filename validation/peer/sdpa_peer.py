#!/usr/bin/env python3
"""PyTorch's attention on this CPU, for `ringtrue bench --peer`: its flash backend, binary32, forward and backward.

usage: sdpa_peer.py BATCH SEQLEN HEADS KV_HEADS DIM full|causal THREADS

Prints one line with its name when it is ready; then, for each line read, the seconds of one forward and those of one
forward with backward.  Ends when its input ends.
"""

import sys
import time


def main():
    batch, seqlen, heads, kv_heads, dim = (int(x) for x in sys.argv[1:6])
    causal, threads = sys.argv[6] == "causal", int(sys.argv[7])
    try:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention as attention
    except ImportError:
        return 3
    torch.set_num_threads(threads)
    torch.manual_seed(1)

    def tensor(h):
        return torch.randn(batch, h, seqlen, dim)

    q, k, v, dout = tensor(heads), tensor(kv_heads), tensor(kv_heads), tensor(heads)
    grouped = {"enable_gqa": True} if heads != kv_heads else {}

    def forward():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return attention(q, k, v, is_causal=causal, **grouped)

    def timed(gradients):
        for x in (q, k, v):
            x.grad = None
            x.requires_grad_(gradients)
        start = time.perf_counter()
        out = forward()
        if gradients:
            out.backward(dout)
        return time.perf_counter() - start

    try:
        timed(True)
    except RuntimeError:
        return 3
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}", flush=True)
    for _ in sys.stdin:
        print(timed(False), timed(True), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
