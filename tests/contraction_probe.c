#include "contraction_probe.h"

double contraction_double(double a, double b, double c)
{
    return a * b + c;
}

float contraction_float(float a, float b, float c)
{
    return a * b + c;
}
