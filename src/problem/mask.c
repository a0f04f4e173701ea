/* Masks as ranges of key positions: a query sees a few of them, less what key padding and a dense mask hide, so
 * that nothing but a dense mask is ever as large as S x S. */
#include <ringtrue/problem.h>

#include <string.h>

static const char *const mask_names[] = {"full", "causal", "causal-bottom-right"};

const char *rt_mask_name(rt_mask_kind m)
{
    if ((int)m < 0 || (size_t)m >= sizeof mask_names / sizeof mask_names[0])
        return NULL;
    return mask_names[m];
}

bool rt_mask_parse(const char *name, rt_mask_kind *out)
{
    for (size_t i = 0; i < sizeof mask_names / sizeof mask_names[0]; i++) {
        if (strcmp(name, mask_names[i]) == 0) {
            *out = (rt_mask_kind)i;
            return true;
        }
    }
    return false;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The last document that starts at or before x: with empty documents, the one that holds x. */
static int64_t document_find(const int64_t *cu, int64_t documents, int64_t x)
{
    int64_t lo = 0, hi = documents;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (cu[mid] <= x)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int64_t rt_document_of_query(const rt_problem *p, int64_t i)
{
    return p->documents == 0 ? 0 : document_find(p->cu_q, p->documents, i);
}

int64_t rt_document_of_key(const rt_problem *p, int64_t j)
{
    return p->documents == 0 ? 0 : document_find(p->cu_k, p->documents, j);
}

/* A document: where its queries and keys start, how many there are, and the diagonal of its mask: local key
 * i + offset for local query i. */
typedef struct {
    int64_t q0, k0, len_q, len_k, offset;
} document;

static document document_get(const rt_problem *p, int64_t n)
{
    document d = {0, 0, p->seqlen_q, p->seqlen_k, 0};
    if (p->documents > 0) {
        d.q0 = p->cu_q[n];
        d.k0 = p->cu_k[n];
        d.len_q = p->cu_q[n + 1] - d.q0;
        d.len_k = p->cu_k[n + 1] - d.k0;
    }
    if (p->mask == RT_MASK_CAUSAL_BOTTOM_RIGHT)
        d.offset = d.len_k - d.len_q;
    return d;
}

/* A half-open range of key positions. */
typedef struct {
    int64_t lo, hi;
} range;

/* What documents, causal mask, window and prefix leave of query i's keys: up to two runs, ascending and apart. */
static int runs_of_row(const rt_problem *p, int64_t i, range out[2])
{
    const document d = document_get(p, rt_document_of_query(p, i));
    const int64_t diagonal = i - d.q0 + d.offset, prefix = smaller(p->prefix, d.len_k);
    int64_t first = 0, end = d.len_k;
    if (p->mask != RT_MASK_FULL)
        end = smaller(end, diagonal + 1);
    if (p->has_window && p->window_left >= 0)
        first = larger(first, diagonal - p->window_left);
    if (p->has_window && p->window_right >= 0)
        end = smaller(end, diagonal + p->window_right + 1);
    if (first >= end)
        first = end = 0;
    if (prefix > 0 && first <= prefix) {
        first = 0;
        end = larger(end, prefix);
    }
    int n = 0;
    if (prefix > 0 && first > prefix)
        out[n++] = (range){d.k0, d.k0 + prefix};
    if (first < end)
        out[n++] = (range){d.k0 + first, d.k0 + end};
    return n;
}

/* The keys of query i in a slice, empty where i lies outside. */
static range slice_keys(const rt_slice *s, int64_t i)
{
    range r = {s->k0, s->k1};
    if (i < s->q0 || i >= s->q1)
        return (range){0, 0};
    if (s->kind == RT_SLICE_CAUSAL || s->kind == RT_SLICE_BI_CAUSAL)
        r.hi = smaller(r.hi, s->k1 - (s->q1 - 1 - i));
    if (s->kind == RT_SLICE_INV_CAUSAL || s->kind == RT_SLICE_BI_CAUSAL)
        r.lo = larger(r.lo, s->k0 + (i - s->q0));
    return r;
}

/* Walks the ranges of query i's keys that every part but key_valid and dense leaves visible: apart from each
 * other, not sorted where there are slices. */
typedef struct {
    const rt_problem *p;
    int64_t i, slice;
    range run[2];
    int runs, at;
} walk;

static walk walk_begin(const rt_problem *p, int64_t i)
{
    walk w = {.p = p, .i = i};
    w.runs = runs_of_row(p, i, w.run);
    return w;
}

static bool walk_next(walk *w, range *out)
{
    if (w->p->n_slices == 0) {
        if (w->at == w->runs)
            return false;
        *out = w->run[w->at++];
        return true;
    }
    for (; w->slice < w->p->n_slices; w->slice++, w->at = 0) {
        const range s = slice_keys(&w->p->slices[w->slice], w->i);
        while (s.lo < s.hi && w->at < w->runs) {
            const range *r = &w->run[w->at++];
            *out = (range){larger(s.lo, r->lo), smaller(s.hi, r->hi)};
            if (out->lo < out->hi)
                return true;
        }
    }
    return false;
}

bool rt_mask_is_interval(const rt_problem *p)
{
    const bool two_runs = p->prefix > 0 && p->has_window && p->window_left >= 0;
    return !two_runs && p->n_slices == 0 && p->key_valid == NULL && p->dense == NULL;
}

void rt_mask_row(const rt_problem *p, int64_t i, int64_t *lo, int64_t *hi)
{
    walk w = walk_begin(p, i);
    range r;
    *lo = *hi = 0;
    for (bool any = false; walk_next(&w, &r); any = true) {
        *lo = any ? smaller(*lo, r.lo) : r.lo;
        *hi = any ? larger(*hi, r.hi) : r.hi;
    }
}

void rt_mask_column(const rt_problem *p, int64_t j, int64_t *lo, int64_t *hi)
{
    const document d = document_get(p, rt_document_of_key(p, j));
    const int64_t diagonal = j - d.k0 - d.offset; /* the query whose diagonal j lies on */
    int64_t first = 0, end = d.len_q;
    if (j - d.k0 >= p->prefix) {
        if (p->mask != RT_MASK_FULL)
            first = larger(first, diagonal);
        if (p->has_window && p->window_right >= 0)
            first = larger(first, diagonal - p->window_right);
        if (p->has_window && p->window_left >= 0)
            end = smaller(end, diagonal + p->window_left + 1);
    }
    range hull = {d.q0 + first, d.q0 + end};
    for (int64_t n = 0; n < p->n_slices; n++) {
        const rt_slice *s = &p->slices[n];
        range r = {s->q0, s->q1};
        if (n == 0)
            hull = (range){0, 0};
        if (j < s->k0 || j >= s->k1)
            continue;
        if (s->kind == RT_SLICE_CAUSAL || s->kind == RT_SLICE_BI_CAUSAL)
            r.lo = larger(r.lo, s->q1 - (s->k1 - j));
        if (s->kind == RT_SLICE_INV_CAUSAL || s->kind == RT_SLICE_BI_CAUSAL)
            r.hi = smaller(r.hi, s->q0 + (j - s->k0) + 1);
        r = (range){larger(r.lo, d.q0 + first), smaller(r.hi, d.q0 + end)};
        if (r.lo >= r.hi)
            continue;
        const bool any = hull.lo < hull.hi;
        hull.lo = any ? smaller(hull.lo, r.lo) : r.lo;
        hull.hi = any ? larger(hull.hi, r.hi) : r.hi;
    }
    *lo = hull.lo < hull.hi ? hull.lo : 0;
    *hi = hull.lo < hull.hi ? hull.hi : 0;
}

static bool filtered(const rt_problem *p)
{
    return p->key_valid != NULL || p->dense != NULL;
}

/* What key_valid and dense say. */
static bool passes(const rt_problem *p, int64_t b, int64_t i, int64_t j)
{
    return (p->key_valid == NULL || p->key_valid[b * p->seqlen_k + j] != 0) &&
           (p->dense == NULL || p->dense[i * p->seqlen_k + j] != 0);
}

bool rt_mask_visible(const rt_problem *p, int64_t b, int64_t i, int64_t j)
{
    if (!passes(p, b, i, j))
        return false;
    walk w = walk_begin(p, i);
    range r;
    while (walk_next(&w, &r))
        if (j >= r.lo && j < r.hi)
            return true;
    return false;
}

int64_t rt_mask_row_keys(const rt_problem *p, int64_t b, int64_t i, const int64_t *k_pos, int64_t n,
                         uint8_t *seen)
{
    int64_t least = INT64_MAX, most = INT64_MIN, count = 0;
    for (int64_t c = 0; c < n; c++) {
        least = smaller(least, k_pos[c]);
        most = larger(most, k_pos[c]);
    }
    memset(seen, 0, (size_t)n);
    walk w = walk_begin(p, i);
    range r;
    while (walk_next(&w, &r)) {
        if (r.lo > most || r.hi <= least)
            continue;
        for (int64_t c = 0; c < n; c++)
            seen[c] |= k_pos[c] >= r.lo && k_pos[c] < r.hi;
    }
    if (filtered(p))
        for (int64_t c = 0; c < n; c++)
            seen[c] = seen[c] && passes(p, b, i, k_pos[c]);
    for (int64_t c = 0; c < n; c++)
        count += seen[c];
    return count;
}

int64_t rt_mask_row_count(const rt_problem *p, int64_t b, int64_t i, int64_t most)
{
    walk w = walk_begin(p, i);
    range r;
    int64_t count = 0;
    while (count < most && walk_next(&w, &r)) {
        if (!filtered(p))
            count += r.hi - r.lo;
        for (int64_t j = r.lo; j < r.hi && filtered(p) && count < most; j++)
            count += passes(p, b, i, j);
    }
    return smaller(count, most);
}

/* How many of the n ascending values are below x. */
static int64_t count_below(const int64_t *a, int64_t n, int64_t x)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (a[mid] < x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Visible pairs of query i over the batch with keys k[0 .. n). */
static int64_t row_pairs(const rt_problem *p, int64_t i, const int64_t *k, int64_t n, bool ascending)
{
    int64_t pairs = 0;
    if (ascending && p->n_slices == 0 && !filtered(p)) { /* the usual masks, of plans with many tiles */
        range run[2];
        const int runs = runs_of_row(p, i, run);
        for (int y = 0; y < runs; y++) {
            const bool all = run[y].lo <= k[0] && k[n - 1] < run[y].hi,
                       none = run[y].hi <= k[0] || k[n - 1] < run[y].lo;
            pairs += all ? n : none ? 0 : count_below(k, n, run[y].hi) - count_below(k, n, run[y].lo);
        }
        return pairs * p->batch;
    }
    walk w = walk_begin(p, i);
    range r;
    while (walk_next(&w, &r)) {
        const int64_t first = ascending ? count_below(k, n, r.lo) : 0,
                      end = ascending ? count_below(k, n, r.hi) : n;
        if (ascending && !filtered(p)) {
            pairs += (end - first) * p->batch;
            continue;
        }
        for (int64_t c = first; c < end; c++)
            for (int64_t b = 0; b < p->batch && k[c] >= r.lo && k[c] < r.hi; b++)
                pairs += passes(p, b, i, k[c]);
    }
    return pairs;
}

int64_t rt_mask_pairs(const rt_problem *p, const int64_t *q_pos, int64_t n_q, const int64_t *k_pos,
                      int64_t n_k)
{
    if (n_k == 0)
        return 0;
    bool ascending = true;
    for (int64_t c = 1; c < n_k && ascending; c++)
        ascending = k_pos[c - 1] < k_pos[c];
    int64_t pairs = 0;
    for (int64_t r = 0; r < n_q; r++)
        pairs += row_pairs(p, q_pos[r], k_pos, n_k, ascending);
    return pairs;
}
