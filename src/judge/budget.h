/* The error budget of a declared arithmetic, and the formulas of the bounds. */
/* clang-format off */
/*
 * Notation: u unit roundoff of the accumulation (2^-24, 2^-53); e accuracy of exp; alpha scale; for row i and
 * key j s = alpha q.k, x = s - max, w = P_ij exact; n the keys that the row sees; G the partials it is joined
 * from, one for each kernel call of the plan that has keys of it (group.h; of a gradient: its contributions).  Each bound has three readings of the same list of errors: det (sum of moduli), var (sum of squares of
 * what is random), sys (sum of moduli of what is not: exp, truncation of a matrix unit, flushing to zero).
 *
 *  g(n)   gamma_n = nu / (1 - nu); of a matrix unit n 2^-F + (ceil(n/L) + 1)(2^-F + 2^-bits): n products take
 *         one step more than ceil(n/L) where they do not start with a step (those of a head dim do)
 *  score  det  g(D) alpha ||q|| ||k|| + u (|s| + 3|x|)    the product with the scale; scale, log2 e, difference
 *         var  u^2 [ D/2 (s^2 + alpha^2 ||q^2|| ||k^2||) + s^2 + 3x^2 ]
 *         sys  0, or g(D) alpha ||q|| ||k|| of a matrix unit
 *         ||q|| ||k|| >= sum |q||k| and ||q^2|| ||k^2|| >= sum q^2 k^2 (Cauchy-Schwarz) spare two products of
 *         matrices.  var takes the partial sums of a product as no larger than a random order of its terms
 *         makes them.
 *  bent   s = softcap(z + a + b), z the product with the scale, a alibi, b bias, m = |z| + |a| + |b|, k additions:
 *         det  g(D) alpha ||q|| ||k|| + u (|z| + 2|a| + |b| + k m)   slope and distance, b in base 2, any order
 *         var  .. + u^2 [ z^2 + 2a^2 + b^2 + k m^2 ]
 *         c tanh(y / c), t = tanh, f = 1 - t^2, Dy the above for y = z + a + b, e_t the declared accuracy of tanh:
 *         det  f (Dy + u|y| + c n_t)(1 + 4 Dy / c) + |s|(e_t + 6u)   f' = -2 t f / c: the second order
 *         var  f^2 (var_y + u^2 y^2) + 6 u^2 s^2;  sys  f (sys_y + c n_t) + |s| e_t
 *         n_t = e + 2u where tanh is not declared: from exponentials (p - 1/p) / (p + 1/p) errs by f times an
 *         exponential's error besides what is relative, else 0.  3|x| is added to all of these as above.
 *  sink   a key more with v = 0 and score sink_h, rounded only as an exponent is: x = sink - max without it;
 *         n + 1 terms in the row sum.  Or it joins the row as a partial does: L + u_j (8 + 2|L|),
 *         O + |O| [u_j (4 + w_s (6 + 2|L|)) + u_s if joined], w_s = exp(sink - L): O sigmoid(L' - sink).
 *  drop   mu = m / keep: what w v is above becomes w mu v; Q = sum w (mu v)^2 = sum w mu v^2 / keep, and the errors
 *         of w stay centred, sum w rho |mu v - O| <= sqrt(sum w rho^2) sqrt(Q - O^2), since sum w = 1.  2u more
 *         for 1 / keep and its product; P may be rounded before it: tau_p / keep, vmax / keep.
 *  p      rho = score + (1 + N)(e + u), N = ceil(n / block) - 1 rescalings, and G - 1 more where the join is
 *         raw: then the kernel's own exponential rescales.  The other joins' exponentials are binary32's.
 *         A document is a kernel call of its own.
 *  LSE    det  sum w rho + gamma_n + 2u|m| + 4u(1 + |L|) + (G - 1) u_j (8 + 2|L|)
 *         var  sum w^2 rho_var + u^2 [n + 2m^2 + 4(1 + L^2)] + (G - 1) u_j^2 (16 + 2 L^2)
 *         sys  sum w rho_sys
 *         u_j: LSE and weights of the join are kept in binary32 also where the joined output (u_s) is coarser
 *  O      det  f sqrt(sum w rho^2) sigma + (u_p + g(n) + N u) A + (gamma_n + 3u)|O| + tau_p n vmax / l
 *              + u_b sum_r |T_r| + G tau_b + join
 *         var  f^2 max(w rho_var) sigma^2 + u_p^2 max(w) Q + u^2 (n + N)(M^2 + max(w) Q) + u^2 (n + 9) O^2
 *              + tau_p^2 n vmax^2 / l^2 + u_b^2 sum_r T_r^2 + G tau_b^2 + join
 *         sys  f sqrt(sum w rho_sys^2) sigma [+ g(n) A]
 *         Q = sum w v^2, A = sqrt(Q) >= sum w|v|, sigma^2 = Q - O^2: the error of the weights is centred, since
 *         numerator and denominator share them (sum w rho |v - O| <= sqrt(sum w rho^2) sigma).  T_r the part of
 *         O that partial r brings, M the largest |prefix| of the sum over blocks, f = sqrt(2) if G > 1, else 1.
 *  join   (G > 1)
 *         det  (gamma_n + (G - 1) u_j (6 + 2|L|))(sigma [+ |O|]) + (G - 1)(6 u_s M + tau_s)
 *         var  (u^2 n + (G - 1) u_j^2 (16 + 4 L^2))(sigma^2 [+ O^2]) + (G - 1)(12 u_s^2 M^2 + tau_s^2)
 *         [..] for two-pass and split, whose weights do not normalise themselves.  M is here the largest sum of
 *         any of the T_r, (sum |T_r| + |sum T_r|) / 2, or the above: partials come in an order of their own.
 *         sigmoid, O - w_r (O - O_r): the difference is rounded even where O_r then outweighs and cancels O:
 *         det  + 2 u_s (sum |T_r| + Y);  var  + 2 u_s^2 (sum T_r^2 + max(w_r) Y^2)
 *         Y = min(vmax, M / min(w_r)) >= |O| of any set of partials, w_r the weight of partial r in the row
 *  delta  det  sum |dO| B_O(stored) + gamma_Dv sum |dO||O|
 *         var  sum dO^2 (var_O + half an ulp^2 of O) + u^2 Dv/2 (delta^2 + sum dO^2 O^2)
 *  dS     t = dP - delta; score here with x = s - L and u (2|s| + 2|x|): its rounding does not cancel in s - L
 *         det  w [ (score + e + 3u + det_L)|t| + g(Dv) ||dO|| ||v|| + det_delta ] + u_p |dS| + tau_p
 *         var  w^2 [ (score_var + 3u^2) t^2 + u^2 Dv/2 (dP^2 + ||dO^2|| ||v^2||) ] + u_p^2 dS^2 + tau_p^2
 *         sys  w [ (score_sys + e + sys_L)|t| + g(Dv) ||dO|| ||v|| of a matrix unit + sys_delta ]
 *         var_L and var_delta are common to a row: in dQ they multiply dQ and sum_j w k as a whole.
 *         Bent: dP is mu dP, 2u |dP| more; dS = f dS', f = 1 - t^2 from a tanh of its own: |f - f^| <= (2|t| / c) Ds + 2u,
 *         Ds the score's error: det + |dS'| (that + u f), sys + |dS'| (2|t| / c) sys; it is not independent of the
 *         score's: var_s (f + 2|t| / c)^2 in place of f^2.  delta and L are common to a row: they multiply f w.
 *  dsink  the share of a row: -w_s delta, det w_s [ (u (2|sink| + 2|sink - L|) + e + 3u + det_L)|delta| + det_delta ], var
 *         and sys alike; summed over N rows, + gamma_N sum |share|, var u^2 N/2 (dsink^2 + sum share^2);
 *         + u_gb sum_r |T_r|, T_r the sum of rank r, and the additions of these as for dQ.
 *  dbias  dS without the rounding of products; summed over what is broadcast as dsink over rows, T_r of a kernel
 *         call and head; rounded as P is where it is summed or its own format is finer.
 *  dQ, dK, dV
 *         these, times |k|, |q|, |dO|, summed; + g(n) as in O (n: the keys of the row for dQ; the rows that see
 *         the key, in all heads of the group, for dK and dV); + u_gb sum_r |T_r| + G tau_gb for the steps;
 *         + (G - 1)(2 u_gs M + tau_gs) for adding them, M as in the join.
 *         GQA: + u_gb sum_h |T_rh|: kernels may round each query head's dK, dV before they add the heads.
 *         Sums sum c|x| are taken as sqrt(sum c) sqrt(sum c x^2); in samples of both sides det and sys have no product
 *         of their own: min(sum c x_max, sqrt(sum c^2 / v) sqrt(sum v x^2)), v the var reading (Cauchy-Schwarz).
 *  flush  Kernels flush what is below the smallest normal number eta (2^-126); det and sys: + eta (n vmax / l
 *         + n + 4) in O, eta (|t| + 1) per pair in dS, eta per pair in P, eta (n + 4) in each gradient.
 *
 * Every result: + half an ulp of its format at |truth| + the rest.
 * Sources: Higham, Accuracy and Stability (gamma_n); Blanchard, Higham, Higham, IMA J. Numer. Anal. 41
 * (softmax); Higham and Mary, SIAM J. Sci. Comput. 41 (probabilistic); Khattak and Mikaitis, arXiv 2512.07004
 * (matrix units).
 */
/* clang-format on */
#ifndef RT_JUDGE_BUDGET_H
#define RT_JUDGE_BUDGET_H

#include <ringtrue/judge.h>

typedef struct {
    double u; /* elementwise roundings and IEEE accumulation */
    double exp_rel;
    double tanh_rel,
        tanh_abs; /* of the softcap's tanh: relative, and where it is not declared times its slope */
    double eta;   /* smallest normal number of the accumulation: what flushing to zero can cost */
    bool matrix_unit;
    /* Of a matrix unit: L; errors per product and per step where sum |x||y| = 1. */
    double tc_products, tc_term, tc_step;
    double u_p, tau_p; /* rounding of P and dS: relative, absolute */
    double u_b, tau_b; /* of partial outputs */
    double u_s, tau_s; /* of the joined output */
    double u_j;        /* of the join's LSE and weights */
    rt_join_form join;
    double u_gb, tau_gb, u_gs, tau_gs;
    int64_t block_keys;
    double radius; /* of the truth, as a part of B: 2^-53 / u */
} rt_budget;

void rt_budget_init(rt_budget *b, const rt_declared *d);

/* g(n): the det factor of a sum of n products, and the part that is not random; `extra` steps of a matrix
 * unit. */
double rt_budget_dot(const rt_budget *b, double n, double extra);
double rt_budget_dot_sys(const rt_budget *b, double n, double extra);
/* N: how often a row's exponentials are rescaled. */
double rt_budget_blocks(const rt_budget *b, int64_t keys, int64_t partials);
/* gamma_n of elementwise sums. */
double rt_gamma(double n, double u);

/* One element's bounds, from the three readings of everything before the final rounding. */
typedef struct {
    double bound, lambda;              /* B, B_lambda, the truth's radius within */
    double sys, random, rounding, det; /* their parts */
    double last;                       /* the last rounding, in the worst case */
    double radius;                     /* of the truth */
    double
        known; /* what both allow for the truth: its radius, and that it is a double; infinite: not known */
} rt_bounds;

rt_bounds rt_budget_close(const rt_budget *b, double det, double var, double sys, double lambda,
                          rt_dtype format, double truth);
/* The same with a truth that is known to `known`, in place of binary64's radius. */
void rt_budget_know(rt_bounds *b, double known);

#endif
