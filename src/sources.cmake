# The library's sources, room by room (see README: the house). One line a file.
set(RT_SOURCES
  # base
  src/base/status.c
  src/base/parameters.c
  # number
  src/number/format.c
  src/number/convert.c
  src/number/philox.c
  src/number/dd.c
  src/number/dd_exp_plain.c
  src/number/dd_exp_avx2.c
  src/number/dd_exp_avx512.c
  src/number/environment.c
  # tensor
  src/tensor/tensor.c
  src/tensor/fingerprint.c
  # problem
  src/problem/problem.c
  src/problem/mask.c
  src/problem/mask_check.c
  src/problem/score.c
  src/problem/generate.c
  src/problem/generate_results.c
  # layout
  src/layout/layout.c
  src/layout/make.c
  src/layout/orders.c
  src/layout/padding.c
  src/layout/list.c
  src/layout/work.c
  src/layout/grid.c
  src/layout/grid_groups.c
  # plan
  src/plan/plan.c
  src/plan/build.c
  src/plan/single.c
  src/plan/rotate.c
  src/plan/ring.c
  src/plan/double_ring.c
  src/plan/all_gather.c
  src/plan/ulysses.c
  src/plan/hybrid.c
  src/plan/pass_q.c
  src/plan/rounds.c
  src/plan/balanced.c
  src/plan/adaptive.c
  src/plan/chunked.c
  src/plan/burst.c
  src/plan/prefill.c
  src/plan/groupcast.c
  src/plan/decode.c
  src/plan/structure.c
  src/plan/grid.c
  src/plan/verify.c
  src/plan/deliver.c
  src/plan/count.c
  src/plan/peak.c
  src/plan/print.c
  src/plan/table.c
  # arithmetic
  src/arithmetic/declared.c
  src/arithmetic/blas.c
  src/arithmetic/blas_rate.c
  src/arithmetic/exp.c
  src/arithmetic/exp_avx2.c
  src/arithmetic/exp_avx512.c
  src/arithmetic/score.c
  src/arithmetic/f64.c
  src/arithmetic/f64_forward.c
  src/arithmetic/f64_backward.c
  src/arithmetic/f64_kernels_plain.c
  src/arithmetic/f64_kernels_avx2.c
  src/arithmetic/f64_kernels_avx512.c
  src/arithmetic/f32.c
  src/arithmetic/f32_forward.c
  src/arithmetic/f32_backward.c
  src/arithmetic/f32_kernels_plain.c
  src/arithmetic/f32_kernels_avx2.c
  src/arithmetic/f32_kernels_avx512.c
  src/arithmetic/block.c
  src/arithmetic/slices.c
  src/arithmetic/exact.c
  src/arithmetic/exact_ops.c
  src/arithmetic/exact_forward.c
  src/arithmetic/exact_backward.c
  src/arithmetic/exact_decide.c
  src/arithmetic/exact_score.c
  src/arithmetic/exact_finish.c
  src/arithmetic/exact_mpfr.c
  src/arithmetic/exact_mpfr_score.c
  src/arithmetic/exact_mpfr_lead.c
  src/arithmetic/exact_mpfr_gradient.c
  src/arithmetic/exact_kernels_plain.c
  src/arithmetic/exact_kernels_avx2.c
  src/arithmetic/exact_kernels_avx512.c
  # run
  src/run/comm.c
  src/run/buffers.c
  src/run/scores.c
  src/run/trace.c
  src/run/exchange.c
  src/run/collective.c
  src/run/run.c
  src/run/ring_rate.c
  # judge
  src/judge/budget.c
  src/judge/group.c
  src/judge/sweep.c
  src/judge/sweep_score.c
  src/judge/sweep_forward.c
  src/judge/sweep_backward.c
  src/judge/sweep_sink.c
  src/judge/sweep_bias.c
  src/judge/truth.c
  src/judge/sample.c
  src/judge/tally.c
  src/judge/place.c
  src/judge/judge.c
  # io
  src/io/json.c
  src/io/file.c
  src/io/safetensors.c
  src/io/write.c
  src/io/npy.c
  src/io/spec.c
  src/io/spec_write.c
  src/io/spec_scores.c
  src/io/sources.c
  src/io/dump.c
  src/io/dump_check.c
  src/io/dump_scores.c
  src/io/folder.c
  src/io/text_file.c
)
# The command's sources: one file per verb.
set(RT_CLI_SOURCES
  src/cli/main.c
  src/cli/options.c
  src/cli/scores.c
  src/cli/options_declare.c
  src/cli/options_parse.c
  src/cli/gen.c
  src/cli/run.c
  src/cli/layout.c
  src/cli/relayout.c
  src/cli/grid.c
  src/cli/grid_groups.c
  src/cli/plan.c
  src/cli/check.c
  src/cli/diff.c
  src/cli/info.c
  src/cli/bench.c
  src/cli/bench_pass.c
  src/cli/bench_peer.c
  src/cli/bench_ring.c
  src/show/report.c
  src/show/report_json.c
  src/show/svg.c
  src/show/plan_svg.c
  src/show/plan_svg_map.c
  src/show/plan_svg_steps.c
  src/show/trace_file.c
)

# Files compiled for one instruction set; what is in them runs only where the processor has it.
set(RT_AVX2_SOURCES src/arithmetic/exp_avx2.c src/arithmetic/f32_kernels_avx2.c src/arithmetic/f64_kernels_avx2.c src/number/dd_exp_avx2.c src/arithmetic/exact_kernels_avx2.c)
set(RT_AVX512_SOURCES src/arithmetic/exp_avx512.c src/arithmetic/f32_kernels_avx512.c src/arithmetic/f64_kernels_avx512.c src/number/dd_exp_avx512.c src/arithmetic/exact_kernels_avx512.c)
