/* The error budget of a declared arithmetic, and the formulas of the bounds.
 *
 * Notation: u unit roundoff of the accumulation (2^-24, 2^-53); e = accuracy of exp; alpha = scale; for row i and key j
 * s = alpha q.k, x = s - max, w = P_ij exact; n = keys that the row sees.  Each bound has three readings of the same
 * list of errors: det (sum of moduli), var (sum of squares of what is random), sys (sum of moduli of what is not
 * random: exp, truncation of a matrix unit).
 *
 *  score        det  g(D) alpha ||q|| ||k|| + u (|s| + 2|x|)              g(n) = gamma_n = nu/(1-nu), or of a matrix unit
 *               var  u^2 [ D/2 (s^2 + alpha^2 ||q^2|| ||k^2||) + s^2 + 2x^2 ]
 *               sys  0, or g(D) alpha ||q|| ||k|| of a matrix unit
 *     ||q|| ||k|| >= sum |q||k| and ||q^2|| ||k^2|| >= sum q^2 k^2 (Cauchy-Schwarz) spare two products of matrices.
 *     var takes the partial sums of a product as no larger than a random order of its terms makes them.
 *  p            rho = score + (1 + N)(e + u), N = ceil(n / block) - 1 rescalings
 *  LSE          det  sum w rho + gamma_n + 2u|m| + 4u(1 + |L|) + (G - 1) u_s (8 + 2|L|)
 *               var  sum w^2 rho_var + u^2 [n + 2m^2 + 4(1 + L^2)] + (G - 1) u_s^2 (16 + 2 L^2);   sys  sum w rho_sys
 *  O            det  f sqrt(sum w rho^2) sigma + (u_p + g(n) + N u) A + (gamma_n + 3u)|O| + tau_p sqrt(n sum v^2) / l
 *                    + u_b sum_r |T_r| + G tau_b + join
 *               var  max(w rho_var) f^2 sigma^2 + u_p^2 max(w) Q + u^2 n (M^2 + max(w) Q) + u^2 (n + 9) O^2
 *                    + tau_p^2 n vmax^2 / l^2 + u_b^2 sum_r T_r^2 + G tau_b^2 + join;   sys  f sqrt(sum w rho_sys^2) sigma [+ g(n) A]
 *     Q = sum w v^2, A = sqrt(Q) >= sum w|v|, sigma^2 = Q - O^2: the error of the weights is centred, since numerator and
 *     denominator share them (sum w rho |v - O| <= sqrt(sum w rho^2) sigma).  T_r = the part of O that partial r brings,
 *     M = the largest |prefix| of the sum over blocks, f = sqrt(2) if G > 1 partials are joined, else 1.
 *     join (G > 1), u_s of the state: det  (gamma_n + u_s (6 + 2|L|)) (sigma [+ |O| for two-pass and split]) + 6 (G - 1) u_s M
 *                                     var  (u^2 n + u_s^2 (16 + 4 L^2)) (sigma^2 [+ O^2]) + 12 (G - 1) u_s^2 M^2
 *  delta        det  sum |dO| B_O(stored) + gamma_Dv sum |dO||O|;  var  sum dO^2 (var_O + u_o^2 O^2) + u^2 Dv/2 (delta^2 + sum dO^2 O^2)
 *  dS           t = dP - delta:  det  w [ (score + e + 3u + det_L) |t| + g(Dv) ||dO|| ||v|| + det_delta ] + u_p |dS| + tau_p
 *               var  w^2 [ (score_var + 3u^2) t^2 + u^2 Dv/2 (dP^2 + ||dO^2|| ||v^2||) ] + u_p^2 dS^2 + tau_p^2
 *               sys  w [ (score_sys + e + sys_L) |t| + g ||dO|| ||v|| of a matrix unit + sys_delta ]
 *               det_L, var_L, det_delta, var_delta are common to a row: in dQ they multiply dQ and sum_j w k as a whole.
 *  GQA: dK, dV of each query head of a group may be rounded to grad_partial before the heads are added (kernels expand
 *  them), so + u_gb sum_h |T_rh| where a group has several heads.
 *  dQ, dK, dV   these, times |k|, |q|, |dO|, summed; + accumulation g(n) as in O, + u_gb sum_r |T_r| per step, + adding steps in
 *               u_gs, + the final rounding.
 * Every result: + half an ulp of its format at |truth| + the rest.
 * Sources: Higham, Accuracy and Stability (gamma_n); Blanchard, Higham, Higham, IMA J. Numer. Anal. 41 (softmax);
 * Higham and Mary, SIAM J. Sci. Comput. 41 (probabilistic); Khattak and Mikaitis, arXiv 2512.07004 (matrix units).
 */
#ifndef RT_JUDGE_BUDGET_H
#define RT_JUDGE_BUDGET_H

#include <ringtrue/judge.h>

typedef struct {
    double u;             /* elementwise roundings and IEEE accumulation */
    double exp_rel;
    bool matrix_unit;
    double tc_unit;       /* of a matrix unit: error per product, sum |x||y| = 1 */
    double u_p, tau_p;    /* rounding of P and dS: relative, absolute */
    double u_b, tau_b;    /* of partial outputs */
    double u_s;           /* of the joined state */
    bool join_weights;    /* the weights of the join do not normalise themselves */
    double u_gb, tau_gb, u_gs;
    int64_t block_keys;
    double radius;        /* of the truth, as a part of B: 2^-53 / u */
} rt_budget;

void rt_budget_init(rt_budget *b, const rt_declared *d);

/* gamma_n of the accumulation: the det factor of a sum of n products, and the part that is not random. */
double rt_budget_dot(const rt_budget *b, double n);
double rt_budget_dot_sys(const rt_budget *b, double n);
/* gamma_n of elementwise sums. */
double rt_gamma(double n, double u);

/* One element's bounds, from the three readings of everything before the final rounding. */
typedef struct {
    double bound, lambda;             /* B, B_lambda, the truth's radius within */
    double sys, random, rounding, det; /* their parts */
    double radius;                     /* of the truth */
} rt_bounds;

rt_bounds rt_budget_close(const rt_budget *b, double det, double var, double sys, double lambda, rt_dtype format,
                          double truth);

#endif
