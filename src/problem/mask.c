/* Masks as intervals: in every mask of this version a query sees one run of keys, and a key is seen by
 * one run of queries, so that nothing is ever as large as S x S. */
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

/* A document: where its queries and keys start, how many there are, and the causal offset: local key j
 * is visible to local query i iff j <= i + offset. */
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

void rt_mask_row(const rt_problem *p, int64_t i, int64_t *lo, int64_t *hi)
{
    document d = document_get(p, rt_document_of_query(p, i));
    int64_t n = d.len_k;
    if (p->mask != RT_MASK_FULL) {
        int64_t last = i - d.q0 + d.offset;
        if (last < n - 1)
            n = last + 1;
    }
    *lo = n > 0 ? d.k0 : 0;
    *hi = n > 0 ? d.k0 + n : 0;
}

void rt_mask_column(const rt_problem *p, int64_t j, int64_t *lo, int64_t *hi)
{
    document d = document_get(p, rt_document_of_key(p, j));
    int64_t first = 0;
    if (p->mask != RT_MASK_FULL) {
        first = j - d.k0 - d.offset;
        if (first < 0)
            first = 0;
    }
    *lo = first < d.len_q ? d.q0 + first : 0;
    *hi = first < d.len_q ? d.q0 + d.len_q : 0;
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

int64_t rt_mask_pairs(const rt_problem *p, const int64_t *q_pos, int64_t n_q, const int64_t *k_pos,
                      int64_t n_k)
{
    if (n_q <= 0 || n_k <= 0)
        return 0;
    bool ascending = true;
    for (int64_t c = 1; c < n_k && ascending; c++)
        ascending = k_pos[c - 1] < k_pos[c];
    int64_t pairs = 0;
    for (int64_t r = 0; r < n_q; r++) {
        int64_t lo, hi;
        rt_mask_row(p, q_pos[r], &lo, &hi);
        if (ascending) {
            if (lo < hi)
                pairs += count_below(k_pos, n_k, hi) - count_below(k_pos, n_k, lo);
            continue;
        }
        for (int64_t c = 0; c < n_k; c++)
            pairs += lo <= k_pos[c] && k_pos[c] < hi;
    }
    return pairs;
}
