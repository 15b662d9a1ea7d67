// bf16_product.cpp -- products of 16-bit floats that the CPU computes directly: which ones, and those by oneDNN
#include "kernels/cpu/libraries/bf16_product.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kernels/cpu/libraries/onednn.h"
#include "kernels/cpu/pool/counters.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/device.h"
#include "kernels/math/reduced_floats.h"
#include "kernels/view.h"

namespace mt {
namespace {

using onednn::Layout;
using onednn::Primitive;

constexpr double kMinWork = 2e6;   // multiply-adds: oneDNN compiles for each shape, 0.5 ms
constexpr double kMinEntry = 3e5;  // of an entry of a batch: a call takes 1 us
constexpr size_t kKept = 256;      // shapes
constexpr int64_t kPanelBytes =
    1 << 20;  // of a panel that is computed in memory of its own, at most

/// What a primitive is compiled for: m, n, k, the strides of a and b, the stride of c's rows, whether it adds a bias,
/// and whether this and the result are float32.
using Key = std::array<int64_t, 10>;

Primitive compile(const Key& key) {
  const auto [m, n, k, a_row, a_col, b_row, b_col, c_row, has_bias, wide] = key;
  const int64_t sizes[4][2] = {{m, k}, {k, n}, {m, n}, {1, n}};
  const int64_t strides[4][2] = {{a_row, a_col}, {b_row, b_col}, {c_row, 1}, {n, 1}};
  const Layout a(onednn::kBF16, 2, sizes[0], strides[0]), b(onednn::kBF16, 2, sizes[1], strides[1]),
      c(wide ? onednn::kF32 : onednn::kBF16, 2, sizes[2], strides[2]),
      bias = has_bias ? Layout(wide ? onednn::kF32 : onednn::kBF16, 2, sizes[3], strides[3])
                      : Layout();
  const Primitive made = a && b && c ? Primitive::matmul(a, b, c, bias) : Primitive();
  return made && made.gains_by_bf16() ? made : Primitive();
}

Primitive primitive_for(const Key& key) {
  return onednn::kept<kKept>(key, [&] { return compile(key); });
}

/// The panels of rows or of columns that a product is cut into, all of the same size except the last.
struct Panels {
  bool by_rows;
  int64_t size, count;
  bool direct;  // a panel is written to c; otherwise to memory of its own, and then copied or added
};
Panels panels_of(const Matmul& q) {
  const bool by_rows = q.m >= q.n;
  const int64_t longer = by_rows ? q.m : q.n, shorter = by_rows ? q.n : q.m;
  int64_t size = longer < 512 ? longer : std::max<int64_t>(256, (longer / 8 + 63) / 64 * 64);
  // Without AMX another kernel writes rows with gaps between them. For bfloat16 it is slower than a copy (128 x 768 x
  // 50257: 25.1 and 22.3 ms on Zen 5), for float32 it is 5 % faster (700 x 650 x 2600).
  const bool dense = q.c_row == q.n && (by_rows || size == longer),
             direct = !q.accumulate && (dense || (q.wide && !onednn::open()->amx));
  if (!direct) size = std::min(size, std::max<int64_t>(64, kPanelBytes / 4 / shorter / 64 * 64));
  return {by_rows, size, (longer + size - 1) / size, direct};
}
/// Element n of 16-bit floats, or of the result and the bias.
const void* element(const void* array, int64_t n) {
  return static_cast<const uint16_t*>(array) + n;
}
int64_t result_size(const Matmul& q) { return q.wide ? sizeof(float) : sizeof(uint16_t); }
void* result(const Matmul& q, int64_t n) { return static_cast<char*>(q.c) + n * result_size(q); }
const void* bias(const Matmul& q, int64_t n) {
  return q.bias ? static_cast<const char*>(q.bias) + n * result_size(q) : nullptr;
}

Matmul panel_of(const Matmul& q, const Panels& panels, int64_t i) {
  Matmul p = q;
  const int64_t from = i * panels.size;
  if (panels.by_rows) {
    p.m = std::min(panels.size, q.m - from);
    p.a = element(q.a, from * q.a_row), p.c = result(q, from * q.c_row);
  } else {
    p.n = std::min(panels.size, q.n - from);
    p.b = element(q.b, from * q.b_col), p.c = result(q, from * q.c_col), p.bias = bias(q, from);
  }
  return p;
}
Primitive primitive_of(const Matmul& q, const Panels& panels, int64_t i) {
  const Matmul p = panel_of(q, panels, i);
  return primitive_for({p.m, p.n, p.k, p.a_row, p.a_col, p.b_row, p.b_col,
                        panels.direct ? p.c_row : p.n, p.bias != nullptr, p.wide});
}

/// oneDNN reads row-major and column-major matrices, and writes row-major ones.
bool reads(int64_t row, int64_t col, int64_t rows, int64_t cols) {
  return (col == 1 && row >= cols) || (row == 1 && col >= rows);
}

float at(const void* x, int64_t i) { return float_of_bf16(static_cast<const uint16_t*>(x)[i]); }

/// The fallback in plain loops, if memory for a panel or oneDNN's scratchpad cannot be allocated.
void plain(const Matmul& p) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      float sum = !p.bias ? 0 : p.wide ? *static_cast<const float*>(bias(p, j)) : at(p.bias, j);
      for (int64_t t = 0; t < p.k; ++t)
        sum += at(p.a, i * p.a_row + t * p.a_col) * at(p.b, t * p.b_row + j * p.b_col);
      void* const to = result(p, i * p.c_row + j);
      if (!p.wide) *static_cast<uint16_t*>(to) = bf16_of_float(sum);
      else *static_cast<float*>(to) = sum + (p.accumulate ? *static_cast<float*>(to) : 0);
    }
}

int64_t entries_of(const Matmul& q) { return count(q.batch_dims, q.batch_size); }

/// Memory of the thread for a panel of the result, or null.
void* panel_memory(size_t bytes) {
  thread_local std::unique_ptr<char, decltype(&std::free)> memory(nullptr, std::free);
  thread_local size_t room = 0;
  if (bytes > room) {
    room = (bytes + 4095) / 4096 * 4096;
    memory.reset(static_cast<char*>(std::aligned_alloc(4096, room)));
    if (!memory) room = 0;
  }
  return memory.get();
}

/// Computes a panel; returns false if memory is lacking.
bool run(const Primitive& primitive, const Matmul& p, bool direct) {
  using namespace onednn;
  const size_t row = size_t(p.n * result_size(p));
  void* const to = direct ? p.c : panel_memory(size_t(p.m) * row);
  if (!to) return false;
  const Data a{kSource, p.a}, b{kWeights, p.b}, c{kResult, to};
  if (!(p.bias ? primitive.run({a, b, {kBias, p.bias}, c}) : primitive.run({a, b, c})))
    return false;
  for (int64_t i = 0; i < p.m && !direct; ++i) {
    const char* const from = static_cast<const char*>(to) + size_t(i) * row;
    float* const sums = static_cast<float*>(result(p, i * p.c_row));
    if (!p.accumulate) {
      std::memcpy(sums, from, row);
      continue;
    }
#pragma omp simd
    for (int64_t j = 0; j < p.n; ++j) sums[j] += reinterpret_cast<const float*>(from)[j];
  }
  return true;
}

bool suits_onednn(const Matmul& q) {
  if (q.dtype != Dtype::bf16 || (q.accumulate && !q.wide) || q.c_col != 1 || q.c_row < q.n ||
      !reads(q.a_row, q.a_col, q.m, q.k) || !reads(q.b_row, q.b_col, q.k, q.n) ||
      !multiplies_bf16(q.m, q.n, q.k, entries_of(q)))
    return false;
  const Panels panels = panels_of(q);
  return primitive_of(q, panels, 0) && primitive_of(q, panels, panels.count - 1);
}

bool suits_thin(const Matmul& q) {
  if (q.accumulate || q.wide || q.batch_dims > 0 || q.k < 64) return false;
  const bool rows = q.b_row == 1 || q.b_col == 1, columns = q.a_row == 1 || q.a_col == 1;
  return (q.m <= kThinHalf && q.n >= 512 && rows && q.n * q.k >= 1 << 17) ||
         (q.n <= kThinHalf && q.m >= 512 && columns && q.m * q.k >= 1 << 17);
}

}  // namespace

bool is_thin_half(const Matmul& q) { return suits_thin(q) && !suits_onednn(q); }

bool takes_int8(const Matmul& q) {
  return q.dtype == Dtype::i8 && q.m <= kThinHalf && suits_thin(q);
}

bool takes_half(const Matmul& q) { return suits_thin(q) || suits_onednn(merge_rows(q)); }

bool multiplies_bf16(int64_t m, int64_t n, int64_t k, int64_t entries) {
  const double work = double(m) * double(n) * double(k);
  if (work < kMinEntry || work * double(entries) < kMinWork || k < 16) return false;
  const onednn::Library* library = onednn::open();
  // With fewer rows than this it is slower than the thin product.
  return library && library->bf16 && std::min(m, n) >= (library->amx ? 16 : 6);
}

bool multiplies_pairs() {
  const onednn::Library* library = onednn::open();
  return library && library->bf16 && !library->amx && std::strcmp(cpu_isa(), "avx512") == 0;
}

void bf16_product(const Matmul& given) {
  const Matmul q = merge_rows(given);
  const Panels panels = panels_of(q);
  const Primitive first = primitive_of(q, panels, 0),
                  last = primitive_of(q, panels, panels.count - 1);
  parallel(entries_of(q) * panels.count, true, [&](int64_t piece) {
    const auto offset = [&](const int64_t* stride) {
      return offset_of(piece / panels.count, q.batch_dims, q.batch_size, stride);
    };
    Matmul of_entry = q;
    of_entry.a = element(q.a, offset(q.a_batch)), of_entry.b = element(q.b, offset(q.b_batch));
    of_entry.c = result(q, offset(q.c_batch));
    const int64_t i = piece % panels.count;
    const Matmul panel = panel_of(of_entry, panels, i);
    if (run(i == panels.count - 1 ? last : first, panel, panels.direct)) count_onednn();
    else plain(panel);
  });
}

}  // namespace mt
