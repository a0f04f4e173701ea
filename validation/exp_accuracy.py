#!/usr/bin/env python3
"""The relative accuracy of the exponential in PyTorch's CPU flash kernel, for the declaration of its runs.

One query and n keys: the first key scores 0, the others -x, with x exact in three bfloat16 pieces.  The kernel's LSE
(fp32) then gives exp(-x) up to 1e-6.  For 16-bit inputs and at least 16 keys PyTorch 2.9.1 (AVX-512) takes a fast
approximation; fewer keys take the accurate scalar tail.  Needs: pip install torch.
"""
import math

import torch

POINTS, DIM = 20000, 64


def lse(q, k, v):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, scale=1.0)[1].double()


def main():
    x = torch.linspace(0, 3, POINTS)
    a = x.bfloat16()
    b = (x - a.float()).bfloat16()
    c = (x - a.float() - b.float()).bfloat16()
    exact = a.double() + b.double() + c.double()
    q = torch.zeros(POINTS, 1, 1, DIM, dtype=torch.bfloat16)
    q[..., :3] = 1
    print("# torch %s: relative error of exp(-x), x in [0, 3]" % torch.__version__)
    print("# keys        least      largest")
    for keys in (2, 16, 64, 256):
        k = torch.zeros(POINTS, 1, keys, DIM, dtype=torch.bfloat16)
        for i, part in enumerate((a, b, c)):
            k[:, 0, 1:, i] = -part[:, None]
        v = torch.zeros(POINTS, 1, keys, DIM, dtype=torch.bfloat16)
        total = torch.exp(lse(q, k, v).flatten())
        zero = math.exp(lse(q[:1] * 0, k[:1], v[:1]).item()) / keys
        error = (total - zero) / (keys - 1) / torch.exp(-exact) - 1
        print("  %4d   %10.3e   %10.3e" % (keys, error.min().item(), error.max().item()))


if __name__ == "__main__":
    main()
