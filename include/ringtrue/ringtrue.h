/** @file ringtrue.h  The referee for context-parallel attention: the umbrella header.
 *
 *  Data flows one way: files -> problem + tensors -> layout -> plan -> run(arithmetic, transport) ->
 *  result -> judge -> report.  One header per noun; the glossary of dimensions is in problem.h. */
#ifndef RINGTRUE_RINGTRUE_H
#define RINGTRUE_RINGTRUE_H

#include <ringtrue/arithmetic.h>
#include <ringtrue/generate.h>
#include <ringtrue/grid.h>
#include <ringtrue/io.h>
#include <ringtrue/judge.h>
#include <ringtrue/layout.h>
#include <ringtrue/number.h>
#include <ringtrue/plan.h>
#include <ringtrue/cost.h>
#include <ringtrue/problem.h>
#include <ringtrue/run.h>
#include <ringtrue/status.h>
#include <ringtrue/tensor.h>

#define RT_VERSION "0.1.0"
#define RT_VERSION_MAJOR 0
#define RT_VERSION_MINOR 1
#define RT_VERSION_PATCH 0

#endif
