"""Writes dumps with validation/capture/ringtrue_capture.py from stand-ins for tensors, without PyTorch.

q = 0, so every row's lse is ln S and its out the mean of v.  Usage: capture.py FOLDER rfa|te-bshd|te-sbhd|te-thd|global
"""

import array
import ctypes
import math
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["RT_SOURCE_DIR"], "validation", "capture"))
import ringtrue_capture as capture  # noqa: E402

RANKS, BATCH, SEQLEN, HEADS, DIM = 2, 2, 6, 3, 4


class Tensor:
    """As much of a torch.Tensor of float32 as the capture asks for; contiguous."""

    dtype = "torch.float32"

    def __init__(self, shape, values):
        self.shape = tuple(shape)
        self.values = array.array("f", values)
        assert len(self.values) == math.prod(shape)

    def dim(self):
        return len(self.shape)

    def numel(self):
        return len(self.values)

    def element_size(self):
        return self.values.itemsize

    def data_ptr(self):
        return ctypes.addressof(ctypes.c_char.from_buffer(self.values)) if self.values else 0

    def reshape(self, *shape):
        return Tensor(shape, self.values)

    def squeeze(self, axis):
        return Tensor(self.shape[:axis] + self.shape[axis + 1:], self.values)

    def detach(self):
        return self

    cpu = contiguous = detach


def value(b, s, h, d):
    return float((7 * b + 5 * s + 3 * h + d) % 11)


def rows(positions, order, of):
    """of(b, s, h, d) at the positions, in order."""
    cells = [(b, s) for b in range(BATCH) for s in positions]
    if order == "sbhd":
        cells = [(b, s) for s in positions for b in range(BATCH)]
    shape = (len(positions), BATCH) if order == "sbhd" else (BATCH, len(positions))
    return Tensor((*shape, HEADS, DIM), [of(b, s, h, d) for b, s in cells for h in range(HEADS) for d in range(DIM)])


def mean(b, s, h, d):
    return sum(value(b, j, h, d) for j in range(SEQLEN)) / SEQLEN


def packed(folder):
    """TransformerEngine's thd: documents of 3, 0 and 5 tokens in rooms of 4, 4 and 8, zigzag in each room; NaN between."""
    lengths, rooms = (3, 0, 5), (4, 4, 8)
    cu, padded = [0], [0]
    for length, room in zip(lengths, rooms):
        cu.append(cu[-1] + length)
        padded.append(padded[-1] + room)
    spec = capture.spec(batch=1, seqlen=cu[-1], heads=HEADS, dim=DIM, mask="full", ranks=RANKS, layout="zigzag-doc",
                        algorithm="ring", lse={"shape": "bsh"}, cu_seqlens=cu, cu_seqlens_padded=padded)
    for rank in range(RANKS):
        places = []  # (document, place in it) of each row
        for document, room in enumerate(rooms):
            run = room // (2 * RANKS)
            for first in (rank * run, (2 * RANKS - 1 - rank) * run):
                places += [(document, first + i) for i in range(run)]

        def rows_of(of, width=DIM):
            cells = [of(d, i, h, x) if i < lengths[d] else math.nan
                     for d, i in places for h in range(HEADS) for x in range(width)]
            return Tensor((len(places), HEADS, width), cells)

        def mean_of(d, _, h, x):
            return sum(value(d, j, h, x) for j in range(lengths[d])) / lengths[d]

        k = rows_of(value)
        tensors = capture.transformer_engine(
            rows_of(lambda *_: 0.0), k, k, rows_of(mean_of).reshape(len(places), HEADS * DIM),
            rows_of(lambda d, *_: math.log(lengths[d]), 1), qkv_format="thd")
        capture.write_rank(folder, rank, spec, tensors)


def main():
    folder, form = sys.argv[1:]
    if form == "te-thd":
        packed(folder)
        return
    order = "sbhd" if form == "te-sbhd" else "bshd"
    ranks = 1 if form == "global" else RANKS
    spec = capture.spec(batch=BATCH, seqlen=SEQLEN, heads=HEADS, dim=DIM, mask="full", ranks=ranks, layout="contiguous",
                        algorithm="ring" if ranks > 1 else "single", order=order)
    for rank in range(ranks):
        n = SEQLEN // ranks
        positions = range(rank * n, (rank + 1) * n)
        q = rows(positions, order, lambda *_: 0.0)
        k = v = rows(positions, order, value)
        out = rows(positions, order, mean)
        lse = Tensor((BATCH, HEADS, n), [math.log(SEQLEN)] * (BATCH * HEADS * n))
        if form.startswith("te-"):
            out = out.reshape(*out.shape[:2], HEADS * DIM)
            lse = lse.reshape(*lse.shape, 1)
            tensors = capture.transformer_engine(q, k, v, out, lse, qkv_format=order)
        else:
            tensors = capture.ring_flash_attn(q, k, v, out, lse)
        if form == "global":
            os.makedirs(folder)
            capture.write_global(os.path.join(folder, "whole.safetensors"), spec, tensors)
        else:
            capture.write_rank(folder, rank, spec, tensors)
    # A tensor that cannot be written leaves no file, whole or in part.
    tensors["bad"] = Tensor((1,), [0.0])
    tensors["bad"].dtype = "torch.complex64"
    before = sorted(os.listdir(folder))
    try:
        capture.write_safetensors(os.path.join(folder, "bad.safetensors"), tensors, spec)
    except ValueError:
        pass
    else:
        sys.exit("complex64 was written")
    if sorted(os.listdir(folder)) != before:
        sys.exit("a failed write left a file")


if __name__ == "__main__":
    main()
