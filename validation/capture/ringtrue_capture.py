"""Write a dump for `ringtrue check` from PyTorch, in a few lines.

On each rank of a context-parallel run, with that rank's own part of every tensor:

    import ringtrue_capture as capture
    spec = capture.spec(batch=1, seqlen=8192, heads=32, kv_heads=8, dim=128, mask="causal",
                        ranks=4, layout="zigzag", algorithm="ring")
    tensors = capture.ring_flash_attn(q, k, v, out, lse, dout, q.grad, k.grad, v.grad)
    capture.write_rank("dump", rank, spec, tensors)

Then, anywhere: `ringtrue check dump`.  Any of out, lse, dout, dq, dk, dv may be None: what is absent is not judged.
A tensor needs only what torch.Tensor has; this file imports neither torch nor anything outside the standard
library.  A file appears complete or not at all: it is written aside, then renamed.
"""

import ctypes
import json
import os
import sys
import tempfile

_DTYPES = {
    "torch.bfloat16": "BF16",
    "torch.float16": "F16",
    "torch.float32": "F32",
    "torch.float64": "F64",
    "torch.float8_e4m3fn": "F8_E4M3",
    "torch.float8_e5m2": "F8_E5M2",
    "torch.int32": "I32",
    "torch.int64": "I64",
    "torch.bool": "BOOL",
}

_KEYS = {
    "batch", "seqlen", "seqlen_k", "heads", "kv_heads", "dim", "dim_v", "scale", "mask", "cu_seqlens", "cu_seqlens_k", "order",
    "tensors", "lse", "ranks", "layout", "remainder", "algorithm", "arithmetic", "cu_seqlens_padded", "cu_seqlens_k_padded",
    "alibi", "bias", "softcap", "sink", "dropout", "window", "prefix", "slices", "key_lengths", "key_ranges", "dense_mask",
}

_ARITHMETIC_KEYS = {
    "accumulate", "exp", "block_keys", "probabilities", "partial", "state", "join", "grad_partial", "grad_state",
    "tanh",
}


def spec(**keys):
    """The spec of a dump, as a dict; the README says what each key means.  Sizes are those of the whole problem,
    not of one rank.  What `arithmetic` leaves out is assumed at its least accurate, and the report says so."""
    for key in keys:
        if key not in _KEYS:
            raise ValueError(f"spec key {key!r}: allowed are {', '.join(sorted(_KEYS))}")
    for key in keys.get("arithmetic") or {}:
        if key not in _ARITHMETIC_KEYS:
            raise ValueError(f"arithmetic key {key!r}: allowed are {', '.join(sorted(_ARITHMETIC_KEYS))}")
    for key in ("batch", "seqlen", "heads", "dim", "mask"):
        if key not in keys:
            raise ValueError(f"spec key {key!r} is missing")
    return {"ringtrue": 1, **{key: value for key, value in keys.items() if value is not None}}


def plain(q, k, v, out=None, lse=None, dout=None, dq=None, dk=None, dv=None, positions=None, steps=(), **scores):
    """Tensors as they are, in the order that the spec names (bshd unless it says otherwise).

    scores: sink, bias, dsink, dbias of a spec that has them.
    positions: original position of each local slot, for layout={"positions": "pos"}.
    steps: the block results (out, lse) in the order in which the rank joined them, before the join; they become
    stepI.out and stepI.lse, and either of a pair may be None."""
    named = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout, "dq": dq, "dk": dk, "dv": dv}
    for name, tensor in scores.items():
        if name not in ("sink", "bias", "dsink", "dbias"):
            raise ValueError(f"tensor {name!r}: besides q k v and results, sink bias dsink dbias are allowed")
        named[name] = tensor
    named["pos"] = positions
    for i, (step_out, step_lse) in enumerate(steps):
        named[f"step{i}.out"] = step_out
        named[f"step{i}.lse"] = step_lse
    return {name: tensor for name, tensor in named.items() if tensor is not None}


def ring_flash_attn(q, k, v, out=None, lse=None, dout=None, dq=None, dk=None, dv=None, positions=None, steps=()):
    """What ring_flash_attn_func and its zigzag and stripe variants take and, with return_attn_probs=True, give:
    (b, s, h, d) each and lse (b, h, s), natural logarithm.  Spec: order "bshd", lse {"shape": "bhs", "base": "e"},
    which are the defaults."""
    _expect_dims("ring_flash_attn", 4, q=q, k=k, v=v, out=out, dout=dout, dq=dq, dk=dk, dv=dv)
    _expect_dims("ring_flash_attn", 3, lse=lse)
    _expect_lse(q.shape[0], q.shape[2], q.shape[1], lse)
    return plain(q, k, v, out, lse, dout, dq, dk, dv, positions, steps)


def transformer_engine(q, k, v, out=None, lse=None, dout=None, dq=None, dk=None, dv=None, positions=None, steps=(),
                       qkv_format="sbhd"):
    """What TransformerEngine's attention takes and gives: qkv_format sbhd, bshd or thd; out and dout may come with heads
    and dims flattened into one; the softmax statistics are (b, h, s) or (b, h, s, 1), with thd (t, h) or (t, h, 1).
    Spec: order=qkv_format; with thd batch=1, order="bshd", lse={"shape": "bsh"}, layout="zigzag-doc", cu_seqlens of the
    whole batch, and cu_seqlens_padded where its sequences have padding behind them."""
    if qkv_format == "thd":
        return _thd(q, k, v, out, lse, dout, dq, dk, dv, positions, steps)
    if qkv_format not in ("sbhd", "bshd"):
        raise ValueError(f"qkv_format {qkv_format!r}: allowed are 'sbhd', 'bshd' and 'thd'")
    _expect_dims("transformer_engine", 4, q=q, k=k, v=v, dq=dq, dk=dk, dv=dv)
    batch, seqlen = (q.shape[1], q.shape[0]) if qkv_format == "sbhd" else (q.shape[0], q.shape[1])
    heads, dim_v = q.shape[2], v.shape[3]

    def rows(tensor):
        if tensor is None or tensor.dim() == 4:
            return tensor
        return tensor.reshape(tensor.shape[0], tensor.shape[1], heads, dim_v)

    def statistics(tensor):
        if tensor is not None and tensor.dim() == 4 and tensor.shape[3] == 1:
            return tensor.squeeze(3)
        return tensor

    lse = statistics(lse)
    _expect_lse(batch, heads, seqlen, lse)
    steps = [(rows(step_out), statistics(step_lse)) for step_out, step_lse in steps]
    return plain(q, k, v, rows(out), lse, rows(dout), dq, dk, dv, positions, steps)


def _thd(q, k, v, out, lse, dout, dq, dk, dv, positions, steps):
    _expect_dims("transformer_engine", 3, q=q, k=k, v=v, dq=dq, dk=dk, dv=dv)
    tokens, heads, dim_v = q.shape[0], q.shape[1], v.shape[2]

    def rows(tensor):
        return tensor.reshape(tensor.shape[0], heads, dim_v) if tensor is not None and tensor.dim() == 2 else tensor

    def statistics(tensor):
        if tensor is not None and tensor.dim() == 3 and tensor.shape[2] == 1:
            tensor = tensor.squeeze(2)
        if tensor is not None and tuple(tensor.shape) != (tokens, heads):
            raise ValueError(f"lse has shape {tuple(tensor.shape)}, expected (t, h) = {(tokens, heads)}")
        return tensor

    steps = [(rows(step_out), statistics(step_lse)) for step_out, step_lse in steps]
    return plain(q, k, v, rows(out), statistics(lse), rows(dout), dq, dk, dv, positions, steps)


def write_rank(folder, rank, spec, tensors):
    """Write rank's file of a dump with one file per rank.  Each rank calls it for itself; nothing is communicated.
    Returns the path."""
    ranks = spec.get("ranks", 1)
    if not 0 <= rank < ranks:
        raise ValueError(f"rank {rank}: allowed are 0 to {ranks - 1}, since the spec says ranks={ranks}")
    os.makedirs(folder, exist_ok=True)
    return write_safetensors(os.path.join(folder, f"rank{rank}.safetensors"), tensors, spec)


def write_global(path, spec, tensors):
    """Write one file with the whole tensors, tokens in their original order.  Returns the path."""
    return write_safetensors(path, tensors, spec)


def write_safetensors(path, tensors, spec=None):
    """Write tensors (name -> tensor) as one safetensors file, the spec in its metadata; complete or not at all."""
    if sys.byteorder != "little":
        raise OSError("safetensors are little-endian, and this machine is not")
    header, chunks, offset = {}, [], 0
    if spec is not None:
        header["__metadata__"] = {"ringtrue": json.dumps(spec)}
    # Wide elements first keeps every tensor aligned to its own element.
    for name in sorted(tensors, key=lambda name: (-tensors[name].element_size(), name)):
        tensor = tensors[name].detach().cpu().contiguous()
        dtype = _DTYPES.get(str(tensor.dtype))
        if dtype is None:
            raise ValueError(f"tensor {name!r} has dtype {tensor.dtype}: allowed are {', '.join(sorted(_DTYPES))}")
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
        chunks.append(tensor)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)

    folder = os.path.dirname(os.path.abspath(path))
    handle, aside = tempfile.mkstemp(prefix=os.path.basename(path) + ".part-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(len(text).to_bytes(8, "little"))
            file.write(text)
            for tensor in chunks:
                file.write(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()))
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes a private file; a dump is readable as any other file would be.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(aside, 0o666 & ~mask)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
    return path


def _expect_dims(function, dims, **tensors):
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dim() != dims:
            raise ValueError(f"{function}: {name} has shape {tuple(tensor.shape)}, expected {dims} dimensions")


def _expect_lse(batch, heads, seqlen, lse):
    if lse is not None and tuple(lse.shape) != (batch, heads, seqlen):
        raise ValueError(f"lse has shape {tuple(lse.shape)}, expected (b, h, s) = {(batch, heads, seqlen)}.  "
                         "For another order of axes use plain() and say lse={'shape': 'bsh'} or 'sbh' in the spec")
