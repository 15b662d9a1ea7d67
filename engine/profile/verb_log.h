// verb_log.h -- MTORCH_LOG=verbs: a line on standard error for each call of a device's verb
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/shape.h"
#include "kernels/cpu/libraries/onednn_conv.h"
#include "kernels/cpu/pool/counters.h"
#include "kernels/device.h"
#include "kernels/program.h"

namespace mt::profile {

extern constinit bool logging;

/// One call of a verb: its line, the program that it ran, if any, and the CPU's counters.
struct VerbCall {
  std::string text;
  std::optional<Run> run;
  double microseconds;
  CpuCounters work;
};
/// While it exists, this thread's calls of verbs are collected here instead of printed.
class VerbCalls {
 public:
  VerbCalls();
  VerbCalls(const VerbCalls&) = delete;
  ~VerbCalls();
  static VerbCalls* current() { return current_; }
  std::vector<VerbCall> calls;

 private:
  static thread_local VerbCalls* current_;
  VerbCalls* const before_;
};
inline bool watched() { return logging || VerbCalls::current(); }

/// The sizes in a verb's argument; for reductions, scans and sorts the dimensions that they process
/// are last.
Shape extent_of(const auto& a) {
  Shape shape;
  if constexpr (requires { a.reduced_size; }) {
    shape = Shape(a.kept_size, a.kept);
    for (int d = 0; d < a.reduced; ++d) shape.push(a.reduced_size[d]);
  } else if constexpr (requires { a.lines; }) {
    shape = Shape(a.lines.size, a.lines.ndim);
    shape.push(a.lines.n);
  } else if constexpr (requires { Shape(a.size, a.ndim); }) {
    shape = Shape(a.size, a.ndim);
  } else if constexpr (requires { a.images; }) {
    shape = {a.outer, a.images, a.period, a.per, a.run};
  } else if constexpr (requires { a.places; }) {
    shape = {a.batch, a.channels, a.places, a.inner};
  } else if constexpr (requires { a.columns; }) {
    shape = {a.outer, a.columns, a.n, a.inner};
  } else if constexpr (requires { a.inner; }) {
    shape = {a.outer, a.n, a.inner};
  } else if constexpr (requires { a.planes; }) {
    shape = {a.planes, a.size[0], a.size[1]};
  } else if constexpr (requires { a.inputs, a.groups; }) {
    shape = {a.batch, a.groups * a.inputs, a.size[0], a.size[1]};
  } else if constexpr (requires { a.mask; }) {
    shape = {a.mask.n};
  } else if constexpr (requires { a.rows, a.values; }) {
    shape = {a.rows, a.values};
  } else if constexpr (requires { a.shared_heads; }) {
    shape = {a.batch, a.heads, a.queries, a.keys, a.features};
  } else if constexpr (requires { a.n; }) {
    shape = {a.n};
  }
  return shape;
}
/// The dtype and shape of a verb's operands.
std::string describe(const auto& a) {
  std::string dtype;
  if constexpr (requires { a.dtype; }) dtype = std::string(dtype_name(a.dtype)) + ' ';
  return dtype + to_string(extent_of(a));
}
inline std::string describe(const Copy& c) {
  const std::string dtype = c.to == c.from
                                ? dtype_name(c.to)
                                : fmt::format("{} to {}", dtype_name(c.from), dtype_name(c.to));
  return dtype + ' ' + to_string(extent_of(c));
}
inline std::string describe(const Matmul& p) {
  std::string batch;
  if (p.batch_dims > 0) batch = to_string(Shape(p.batch_size, p.batch_dims)) + " of ";
  return fmt::format("{} {}({} x {}) by ({} x {}){}{}{}", dtype_name(p.dtype), batch, p.m, p.k, p.k,
                     p.n, p.tf32 ? ", TF32" : "",
                     p.pairs  ? " of pairs"
                     : p.wide ? " in float32"
                              : "",
                     p.bias ? " with bias" : "");
}
inline std::string describe(const Conv& c) {
  const char* const part[] = {"", " for the input", " for the weight"};
  const Shape x{c.batch, c.groups * c.inputs, c.size[0], c.size[1]},
      w{c.groups * c.outputs, c.inputs, c.kernel[0], c.kernel[1]};
  const std::string kernel = c.scratch ? onednn::convolution_kernel(c) : "";  // null on a GPU
  return fmt::format("{} {} by {}{}{}{}{}", dtype_name(c.dtype), to_string(x), to_string(w),
                     part[int(c.part)], kernel.empty() ? "" : ", oneDNN's ", kernel,
                     c.tf32 ? ", TF32" : "");
}
inline std::string describe(const Run& r) {
  const Program& p = *r.program;
  int operations = 0;
  for (int i = 0; i < p.count; ++i) operations += p.code[i].op >= 0 || p.code[i].op == kReduce;
  return fmt::format("{} {} of {} operations{}", dtype_name(r.dtype), to_string(extent_of(r)),
                     operations, p.by_rows ? " by rows" : "");
}
inline std::string describe(std::nullptr_t) { return ""; }
inline std::string describe(const Allocation& a) { return fmt::format("{} bytes", a.bytes); }
inline std::string describe(const Move& m) { return fmt::format("{} bytes", m.bytes); }

const Run* run_of(const auto&) { return nullptr; }
inline const Run* run_of(const Run& r) { return &r; }

/// Prints its line when the call returns: `cpu map relu float32 (64 x 10) 1.3 us`. On a GPU the
/// time is that of queueing the work, unless MTORCH_CUDA_SYNC is set.
class VerbLine {
 public:
  VerbLine(std::string text, const Run* run)
      : text_(std::move(text)),
        run_(run),
        work_(cpu_counters()),
        began_(std::chrono::steady_clock::now()) {}
  VerbLine(const VerbLine&) = delete;
  VerbLine& operator=(const VerbLine&) = delete;
  ~VerbLine();
  /// Discards the line, because nothing was done.
  void drop() { text_.clear(); }

 private:
  std::string text_;
  const Run* run_;
  CpuCounters work_;
  std::chrono::steady_clock::time_point began_;
};

/// Applies MTORCH_LOG; an unknown value is reported on standard error.
void start_log();

}  // namespace mt::profile
