/* contraction_probe.h: a * b + c, compiled where a fused instruction is at hand. */
#ifndef RT_TESTS_CONTRACTION_PROBE_H
#define RT_TESTS_CONTRACTION_PROBE_H

double contraction_double(double a, double b, double c);
float contraction_float(float a, float b, float c);

#endif
