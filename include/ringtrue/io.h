/** @file io.h  Files: safetensors, npy, the spec, dump folders.  All calls are local.
 *
 *  Files are mapped, never read whole.  Readers are strict: what the format's definition does not allow
 *  is an error (RT_ERR_FORMAT) that names the file and what is wrong; a file that cannot be opened is
 *  RT_ERR_IO. */
#ifndef RINGTRUE_IO_H
#define RINGTRUE_IO_H

#include <stdio.h>

#include <ringtrue/arithmetic.h>
#include <ringtrue/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one file of tensors ------------------------------------------------------------------------ */

typedef struct {
    char *name;   /**< owned by the file; npy: the file's base name without ".npy" */
    rt_view view; /**< row-major for safetensors; any strides for npy (Fortran order) */
} rt_file_tensor;

/** An open, mapped file.  Views point into the mapping and die with it. */
typedef struct {
    char *path;
    int64_t count;
    rt_file_tensor *tensors;
    char *metadata;  /**< value of the safetensors metadata key "ringtrue", or NULL */
    void *map;       /**< the mapping, */
    size_t map_size; /**< its bytes, */
    void *owned;     /**< or, for npy of the other endianness, a converted copy */
} rt_file;

/** Open a .safetensors or .npy file (by its content: the npy magic).  safetensors: dtypes BF16 F16 F32 F64
 *  F8_E4M3 F8_E5M2 I32 I64 BOOL U8 I8.  Errors, each with its own text: shorter than 8 bytes; header longer
 *  than the file or than 100 MB; header that does not start with '{'; header that is not JSON;
 *  duplicate key; unknown dtype; shape not a list of non-negative integers; size overflow; offsets that
 *  disagree with shape x dtype; overlap; hole; data shorter or longer than the header says; metadata
 *  that is not a map of strings.  npy 1.0, 2.0, 3.0: bad magic, version, header length, dictionary;
 *  unknown descr; data shorter or longer than the shape.  npy descr: f8 f4 f2 i4 i8 b1 of either
 *  endianness; bf16 as in the wild: '<u2' or '>u2' (its bits; 16-bit integers are not read as such),
 *  '<V2', '|V2' or "bfloat16". */
rt_status rt_file_open(rt_context *ctx, const char *path, rt_file *out) RT_NODISCARD;
void rt_file_close(rt_file *f);
/** The tensor of that name, NULL if absent. */
const rt_file_tensor *rt_file_find(const rt_file *f, const char *name);

/** A tensor to write; the caller fills it through rt_file_writer's mapping. */
typedef struct {
    const char *name;
    rt_dtype dtype;
    int32_t ndim;
    int64_t shape[RT_MAX_DIMS];
} rt_tensor_decl;

/** A safetensors file being written: created at path (which must not exist), sized, mapped for writing.
 *  Headers are padded with spaces so that data start at a multiple of 64 bytes. */
typedef struct {
    char *path;
    void *map;
    size_t map_size;
    int64_t count;
    void **data; /**< data[i]: the dense row-major storage of tensor i, little-endian, zero at first */
} rt_file_writer;
/** `metadata` (NULL allowed) becomes the metadata key "ringtrue". */
rt_status rt_file_create(rt_context *ctx, const char *path, const rt_tensor_decl *tensors, int64_t count,
                         const char *metadata, rt_file_writer *out) RT_NODISCARD;
/** Flush and unmap.  RT_ERR_IO (full disk) removes the file. */
rt_status rt_file_finish(rt_context *ctx, rt_file_writer *w) RT_NODISCARD;
/** Unmap and remove. */
void rt_file_abandon(rt_file_writer *w);
/** Write one npy 1.0 file (C order, little-endian; bf16 as '<V2', fp8 as '|u1') at path, complete or
 *  not at all (aside, then renamed). */
rt_status rt_npy_write(rt_context *ctx, const char *path, rt_dtype t, int32_t ndim, const int64_t *shape,
                       const void *data) RT_NODISCARD;

/* ---- the spec ----------------------------------------------------------------------------------- */

typedef enum { RT_ORDER_BSHD = 0, RT_ORDER_SBHD, RT_ORDER_BHSD } rt_order;
const char *rt_order_name(rt_order o);

/** Axes of a stored LSE. */
typedef enum { RT_LSE_BHS = 0, RT_LSE_BSH, RT_LSE_SBH } rt_lse_shape;
const char *rt_lse_shape_name(rt_lse_shape s); /**< bhs bsh sbh */

/** The spec: what a dump cannot say by itself.  Schema version 1; README documents each key. */
typedef struct {
    rt_problem problem;
    rt_order order;
    /** tensor names in the files; owned.  sink, bias: NULL where the spec gives no tensor for it; a name that ends in
     *  .npy is a file in the dump's folder */
    char *names[RT_NAME_COUNT];
    rt_lse_shape lse_shape;
    bool lse_base2;                  /**< stored LSE is log2 of the sum */
    int32_t ranks;                   /**< P */
    char layout[RT_LAYOUT_NAME_MAX]; /**< its name with parameters (rt_layout_make); "positions" where
                                       positions is set, and only there */
    rt_remainder remainder;
    char *positions;   /**< tensor with the positions of each rank's slots (1-D integer, -1: padding);
                                       owned, or NULL.  The same list serves both sides, unless
                                       positions_k names another */
    char *positions_k; /**< or NULL */
    int64_t *padded_q, *padded_k; /**< offsets of the documents in the files (rt_layout_options), owned, or
                                       NULL: the tensors hold no padding */
    char algorithm[96];           /**< a planner's name, with its parameters (rt_plan_create) */
    rt_declared declared;
    /** Where problem.dense is, or NULL: a bool, u8, i8, i32 or i64 tensor of 0 and 1, (Sq, Sk) of the dump (of any of its files), or,
     *  where the name ends in ".npy", a file relative to the spec.  rt_spec_parse leaves problem.dense NULL,
     *  rt_dump_open reads it.  Owned */
    char *dense_mask;
} rt_spec;
/** The name of a dense mask that ringtrue writes. */
#define RT_DENSE_MASK_NAME "mask"
/** Read the one tensor of a file into p->dense (Sq, Sk of p). */
rt_status rt_dense_mask_read(rt_context *ctx, const char *path, rt_problem *p) RT_NODISCARD;

/** Parse a spec's JSON text; `where` names it in errors ("spec.json").  Unknown keys, wrong types and values
 *  out of range are RT_ERR_FORMAT, naming key, value and what is allowed.  `input` is the dtype of q, from
 *  which undeclared arithmetic is assumed. */
rt_status rt_spec_parse(rt_context *ctx, const char *text, size_t length, const char *where, rt_dtype input,
                        rt_spec *out) RT_NODISCARD;
/** The JSON text of a spec (parses back to the same); owned by the caller, rt_free. */
rt_status rt_spec_write(rt_context *ctx, const rt_spec *s, char **text) RT_NODISCARD;
rt_status rt_spec_copy(rt_context *ctx, const rt_spec *from, rt_spec *to) RT_NODISCARD;
void rt_spec_reset(rt_spec *s);
/** A spec for a problem: bshd, the usual names, natural LSE bhs, P = 1 contiguous, single, all arithmetic
 *  assumed for `input`.  The problem is copied. */
rt_status rt_spec_init(rt_context *ctx, const rt_problem *p, rt_dtype input, rt_spec *out) RT_NODISCARD;

/* ---- a dump -------------------------------------------------------------------------------------- */

/** A dump: a folder, one file, or a list of files.
 *  In a folder: rank0.safetensors .. rank{P-1}.safetensors (one file per rank); else exactly one *.safetensors
 *  (global: tokens in original order); else rank0.q.npy .. or q.npy (one npy file per tensor).
 *  The spec is, in this order: the file given to rt_dump_open; the metadata key "ringtrue" of the
 *  first file; spec.json beside the files. */
typedef struct {
    char *path;
    char *
        folder; /**< where its files lie; files that the spec names (positions:file=, grid=@) are looked up there */
    rt_spec spec;
    rt_layout layout; /**< of the spec, built and checked against the files */
    bool per_rank;    /**< one file per rank; else global */
    int64_t n_files;
    rt_file *files; /**< those of this process: all of them */
    rt_dtype dtype[RT_RESULT_COUNT];
    bool present[RT_RESULT_COUNT];
    /** Views by [tensor * P + rank] (per_rank) or [tensor * P] (global), each with shape and strides permuted
     *  to (B, S, H, D), LSE to (B, S, H, 1), dsink to (1, 1, Hq, 1), dbias to (Bb, Sb, Hb, Sk).  Files of ranks hold
     *  their own queries of a bias and of dbias; what has none (sink, dsink, shapes like 111s) is rank 0's. */
    rt_view *views;
    int64_t released; /**< when rt_dump_release last did, in milliseconds */
} rt_dump;

/** Open and check (sink and bias are read into spec.problem): every tensor's shape against the spec, all ranks' dtypes the same; q, k, v must be there;
 *  the positions a permutation.  spec_path NULL: look for it.  A missing rank file is RT_ERR_IO, naming
 *  file and rank. */
rt_status rt_dump_open(rt_context *ctx, const char *const *paths, int64_t n_paths, const char *spec_path,
                       rt_dump *out) RT_NODISCARD;
void rt_dump_close(rt_dump *d);
/** Address of the contiguous row (dims 0..) of a tensor for batch b, original position pos, head h; its
 *  elements have stride 1 (checked at open; npy in Fortran order is converted to a dense copy). */
const void *rt_dump_row(const rt_dump *d, rt_tensor_id t, int64_t b, int64_t pos, int64_t h);
/** Load that row as doubles, n elements. */
void rt_dump_load(const rt_dump *d, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row);

/** Pages of the mapped files that were read may leave memory (they come back from the files when needed).  Does nothing for dumps below 1 GiB,
 *  and at most ten times a second; may be called by any thread while others read. */
void rt_dump_release(rt_dump *d);

/** Create the folder `path` aside ("<path>.part-<token>", on the same file system). */
rt_status rt_folder_begin(rt_context *ctx, const char *path, bool force, char **aside) RT_NODISCARD;
/** Rename it into place (with force, an existing folder or file there is replaced); frees *aside. */
rt_status rt_folder_commit(rt_context *ctx, const char *path, bool force, char **aside) RT_NODISCARD;
/** Remove it and what it holds; frees *aside. */
void rt_folder_abandon(char **aside);

#ifdef __cplusplus
}
#endif
#endif
