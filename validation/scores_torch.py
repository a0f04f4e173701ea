"""Attention with ALiBi, bias, softcap, sink and dropout in plain PyTorch operations, judged by `ringtrue check`.

    out/venv/bin/python validation/scores_torch.py build/release/ringtrue FOLDER

Nothing here comes from ringtrue but the dump's writer: scores, softmax and products are PyTorch's on this CPU, gradients
are autograd's, the dropout mask is Philox4x32-10 written again below.  Every right run must pass; then each is spoilt in
one way, and must fail.  Exit code 0 says that it was so.
"""

import os
import subprocess
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "capture"))
import ringtrue_capture as capture  # noqa: E402

BATCH, SEQLEN, HEADS, KV_HEADS, DIM = 2, 96, 4, 2, 32


def philox(counter, key):
    """Philox4x32 with 10 rounds (Salmon et al., SC'11)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        u, v = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(v >> 32) ^ c[1] ^ k[0], v & 0xFFFFFFFF, (u >> 32) ^ c[3] ^ k[1], u & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def kept(p, seed):
    """The mask that rt_dropout_keep in include/ringtrue/problem.h defines, (b, h, i, j)."""
    keep = torch.zeros(BATCH, HEADS, SEQLEN, SEQLEN)
    threshold, key = int(p * 2**32), (seed & 0xFFFFFFFF, seed >> 32)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(SEQLEN):
                for block in range(SEQLEN // 4):
                    words = philox((block, i, h, b | 0xF0000000), key)
                    for x in range(4):
                        keep[b, h, i, 4 * block + x] = float(words[x] >= threshold)
    return keep


def run(dtype, slopes=None, bias=None, softcap=None, sink=None, dropout=None, keep=None):
    """Everything in `dtype` but the softmax, which is binary32 as in the usual kernels."""
    torch.manual_seed(5)
    q, k, v, dout = (torch.randn(BATCH, SEQLEN, heads, DIM).to(dtype) for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    for x in (bias, sink):
        if x is not None:
            leaves.append(x.requires_grad_())
    qh, kh, vh = (x.transpose(1, 2).float() for x in (q, k, v))
    kh, vh = (x.repeat_interleave(HEADS // KV_HEADS, dim=1) for x in (kh, vh))
    s = qh @ kh.transpose(2, 3) * DIM**-0.5
    i, j = torch.arange(SEQLEN)[:, None], torch.arange(SEQLEN)[None, :]
    if slopes is not None:
        s = s - torch.tensor(slopes)[:, None, None] * (i - j).abs()
    if bias is not None:
        s = s + bias
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    s = s.masked_fill(j > i, float("-inf"))
    if sink is not None:
        s = torch.cat([s, sink[:, None, None].expand(BATCH, HEADS, SEQLEN, 1)], dim=3)
    lse = torch.logsumexp(s, dim=3)
    p = torch.softmax(s, dim=3)[..., :SEQLEN]
    if dropout is not None:
        p = p * keep / (1 - dropout)
    out = (p @ vh).transpose(1, 2).to(dtype)
    grads = torch.autograd.grad(out, leaves, dout)
    named = dict(zip(["dq", "dk", "dv"] + ["dbias"] * (bias is not None) + ["dsink"] * (sink is not None), grads))
    extra = {name: x for name, x in (("bias", bias), ("sink", sink)) if x is not None}
    return capture.plain(q, k, v, out, lse, dout, positions=None, **named, **extra)


def main():
    ringtrue, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    slopes = [2.0**-(2 * (h + 1)) for h in range(HEADS)]
    keep = kept(0.25, 77)
    bad = 0

    def verdict(name, tensors, spec, wanted):
        nonlocal bad
        path = os.path.join(folder, name + ".safetensors")
        if os.path.exists(path):
            os.remove(path)
        capture.write_global(path, spec, tensors)
        got = subprocess.run([ringtrue, "check", path, "--full"], capture_output=True, text=True)
        last = got.stdout.strip().splitlines()[-1] if got.stdout else got.stderr.strip()
        print(f"{'as it should' if got.returncode == wanted else 'NOT AS IT SHOULD'}  {name}: {last}")
        bad += got.returncode != wanted

    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        precise = {"accumulate": "f32", "exp": 2.0**-22, "tanh": 2.0**-21, "block_keys": 16, "join": "raw",
                   **{key: "f32" for key in ("probabilities", "partial", "state", "grad_partial", "grad_state")}}
        shared = dict(batch=BATCH, seqlen=SEQLEN, heads=HEADS, kv_heads=KV_HEADS, dim=DIM, mask="causal",
                      arithmetic=precise)
        bias = {shape: torch.randn([BATCH if shape[0] == "b" else 1, HEADS if shape[1] == "h" else 1,
                                    SEQLEN if shape[2] == "s" else 1, SEQLEN]) for shape in ("1hss", "b1ss", "111s")}
        sink = torch.randn(HEADS)
        cases = {
            "alibi": (dict(slopes=slopes), dict(alibi=slopes), dict(slopes=[x * 1.02 for x in slopes])),
            "softcap": (dict(softcap=2.0), dict(softcap=2.0), dict()),
            "sink": (dict(sink=sink), dict(sink="sink"), None),
            "dropout": (dict(dropout=0.25, keep=keep), dict(dropout={"p": 0.25, "seed": 77}),
                        dict(dropout=0.25, keep=keep.roll(1, 3))),
            **{f"bias-{shape}": (dict(bias=x), dict(bias={"shape": shape}), None) for shape, x in bias.items()},
            "all": (dict(slopes=slopes, bias=bias["1hss"], softcap=2.0, sink=sink, dropout=0.25, keep=keep),
                    dict(alibi=slopes, bias={"shape": "1hss"}, softcap=2.0, sink="sink",
                         dropout={"p": 0.25, "seed": 77}), None),
        }
        for case, (arguments, keys, spoilt) in cases.items():
            spec = capture.spec(**shared, **keys)
            tensors = run(dtype, **arguments)
            verdict(f"{name}-{case}", tensors, spec, 0)
            if spoilt is not None:
                verdict(f"{name}-{case}-other", run(dtype, **spoilt), spec, 1)
            for gradient in ("dsink", "dbias"):
                if gradient in tensors:
                    verdict(f"{name}-{case}-{gradient}-sign", {**tensors, gradient: -tensors[gradient]}, spec, 1)
    print("all as they should" if bad == 0 else f"{bad} not as they should")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
