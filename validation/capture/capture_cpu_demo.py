"""A ring of 4 simulated ranks over CPU PyTorch's own attention kernel, captured for `ringtrue check`.

Causal attention in bf16, contiguous shards, forward and (through autograd) backward; all ranks live in this process,
so the ring's sends are list look-ups.  Usage: python3 capture_cpu_demo.py FOLDER [--seqlen N] [--seed N]
"""

import argparse

import torch

import ringtrue_capture as capture

FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
FLASH_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Ring(torch.autograd.Function):
    """Takes every rank's q, k, v, each (b, s, h, d); gives every rank's out.  Keeps lse and the block results in `log`."""

    @staticmethod
    def forward(ctx, log, ranks, *qkv):
        q, k, v = qkv[:ranks], qkv[ranks:2 * ranks], qkv[2 * ranks:]
        out, lse = [], []
        for r in range(ranks):
            state, state_lse, steps = None, None, []
            for t in range(r + 1):  # shards behind r are wholly in its future
                block, block_lse = FLASH(_heads_first(q[r]), _heads_first(k[r - t]), _heads_first(v[r - t]),
                                         0.0, t == 0)
                steps.append((_heads_first(block), block_lse))
                if state is None:
                    state, state_lse = block.float(), block_lse
                else:
                    weight = torch.sigmoid(block_lse - state_lse)
                    state = state - weight.unsqueeze(-1) * (state - block.float())
                    state_lse = state_lse - torch.nn.functional.logsigmoid(state_lse - block_lse)
            out.append(_heads_first(state.to(q[r].dtype)))
            lse.append(state_lse)
            log.append((state_lse, steps))
        ctx.ranks = ranks
        ctx.save_for_backward(*qkv, *out, *lse)
        return tuple(out)

    @staticmethod
    def backward(ctx, *dout):
        ranks, saved = ctx.ranks, ctx.saved_tensors
        q, k, v, out, lse = (saved[i * ranks:(i + 1) * ranks] for i in range(5))
        dq, dk, dv = ([torch.zeros_like(x, dtype=torch.float32) for x in side] for side in (q, k, v))
        # Step by step as on a ring, so that the sums over ranks are in the order of a ring's hops.
        for t in range(ranks):
            for r in range(t, ranks):
                grads = FLASH_BACKWARD(_heads_first(dout[r]), _heads_first(q[r]), _heads_first(k[r - t]),
                                       _heads_first(v[r - t]), _heads_first(out[r]), lse[r], 0.0, t == 0)
                for total, grad in zip((dq[r], dk[r - t], dv[r - t]), grads):
                    total += _heads_first(grad).float()
        return (None, None, *(total.to(torch.bfloat16) for total in (*dq, *dk, *dv)))


def _heads_first(x):
    """(b, s, h, d) to (b, h, s, d), which the kernel wants, or back."""
    return x.transpose(1, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--seqlen", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    ranks, batch, heads, dim, seqlen = 4, 1, 4, 64, arguments.seqlen
    if seqlen < ranks or seqlen % ranks != 0:
        parser.error(f"--seqlen {seqlen}: must be a positive multiple of {ranks}")

    torch.manual_seed(arguments.seed)
    q, k, v, dout = (torch.randn(batch, seqlen, heads, dim).to(torch.bfloat16) for _ in range(4))
    shards = [[shard.clone().requires_grad_() for shard in x.chunk(ranks, dim=1)] for x in (q, k, v)]
    log = []
    outs = Ring.apply(log, ranks, *shards[0], *shards[1], *shards[2])
    torch.autograd.backward(outs, list(dout.chunk(ranks, dim=1)))

    # Not the judge's business, only a warning that the ring above is no ring: one call without shards.
    whole = torch.nn.functional.scaled_dot_product_attention(*map(_heads_first, (q, k, v)), is_causal=True)
    apart = (torch.cat(outs, dim=1) - _heads_first(whole)).abs().max().item()
    print(f"largest difference from one scaled_dot_product_attention call: {apart:.3g}")

    spec = capture.spec(
        batch=batch, seqlen=seqlen, heads=heads, dim=dim, scale={"f32": "rsqrt_dim"}, mask="causal",
        ranks=ranks, layout="contiguous", algorithm="ring",
        # This kernel's vector exp for 16-bit types is a fast one: 1.09e-4, measured by ../exp_accuracy.py.  Its blocks
        # have 512 keys.
        arithmetic={"accumulate": "f32", "exp": 1.1e-4, "block_keys": 512, "probabilities": "bf16", "partial": "bf16",
                    "state": "f32", "join": "sigmoid", "grad_partial": "bf16", "grad_state": "f32"})
    for rank in range(ranks):
        lse, steps = log[rank]
        rows = [x[rank] for x in shards]
        tensors = capture.plain(*rows, outs[rank], lse, dout.chunk(ranks, dim=1)[rank],
                                *(x.grad for x in rows), steps=steps)
        print(capture.write_rank(arguments.folder, rank, spec, tensors))


if __name__ == "__main__":
    main()
