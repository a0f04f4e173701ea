int64_t total, n = 0;
#pragma omp parallel for reduction(+ : n)
