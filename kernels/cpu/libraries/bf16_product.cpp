// bf16_product.cpp -- products of 16-bit floats that the CPU computes directly: which ones, and those by oneDNN
#include "kernels/cpu/libraries/bf16_product.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/cpu/libraries/onednn.h"
#include "kernels/cpu/pool/counters.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

using onednn::Layout;
using onednn::Primitive;

constexpr double kMinWork = 2e6;  // multiply-adds: oneDNN compiles for each shape, 0.5 ms
constexpr size_t kKept = 256;     // shapes
constexpr int64_t kThin = 12;     // rows or columns, at most

/// The key that a primitive is compiled for: m, n, k and the strides of a, b and c.
using Key = std::array<int64_t, 9>;

Primitive compile(const Key& key) {
  const auto [m, n, k, a_row, a_col, b_row, b_col, c_row, c_col] = key;
  const int64_t sizes[3][2] = {{m, k}, {k, n}, {m, n}};
  const int64_t strides[3][2] = {{a_row, a_col}, {b_row, b_col}, {c_row, c_col}};
  const Layout a(onednn::kBF16, 2, sizes[0], strides[0]), b(onednn::kBF16, 2, sizes[1], strides[1]),
      c(onednn::kF32, 2, sizes[2], strides[2]);
  const Primitive made = a && b && c ? Primitive::matmul(a, b, c) : Primitive();
  // Only the AMX kernels are used: the others are slower than products of float32.
  return made && std::strstr(made.kernel(), "amx") ? made : Primitive();
}

Primitive primitive_for(const Key& key) {
  return onednn::kept<kKept>(key, [&] { return compile(key); });
}

/// Panels of rows or columns, all of the same size except the last.
struct Panels {
  bool by_rows;
  int64_t size, count;
};
Panels panels_of(const Matmul& q) {
  const bool by_rows = q.m >= q.n;
  const int64_t longer = by_rows ? q.m : q.n;
  const int64_t size = longer < 512 ? longer : std::max<int64_t>(256, (longer / 8 + 63) / 64 * 64);
  return {by_rows, size, (longer + size - 1) / size};
}
Key key_of(const Matmul& q, const Panels& p, int64_t i) {
  const int64_t size = std::min(p.size, (p.by_rows ? q.m : q.n) - i * p.size);
  return {p.by_rows ? size : q.m,
          p.by_rows ? q.n : size,
          q.k,
          q.a_row,
          q.a_col,
          q.b_row,
          q.b_col,
          q.c_row,
          q.c_col};
}

/// oneDNN reads row-major and column-major matrices, and writes row-major ones.
bool reads(int64_t row, int64_t col, int64_t rows, int64_t cols) {
  return (col == 1 && row >= cols) || (row == 1 && col >= rows);
}

float at(const void* x, int64_t i) { return float_of_bf16(static_cast<const uint16_t*>(x)[i]); }

/// The fallback in plain loops, if memory for oneDNN's scratchpad cannot be allocated.
void plain(const Key& key, const uint16_t* a, const uint16_t* b, float* c) {
  const auto [m, n, k, a_row, a_col, b_row, b_col, c_row, c_col] = key;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += at(a, i * a_row + p * a_col) * at(b, p * b_row + j * b_col);
      c[i * c_row + j * c_col] = sum;
    }
}

}  // namespace

bool is_thin_half(const Matmul& q) {
  if (q.accumulate || q.batch_dims > 0 || q.k < 64) return false;
  return (q.m <= kThin && q.n >= 512 && q.b_row == 1 && q.n * q.k >= 1 << 17) ||
         (q.n <= kThin && q.m >= 512 && q.a_col == 1 && q.m * q.k >= 1 << 17);
}

bool takes_int8(const Matmul& q) { return q.dtype == Dtype::i8 && q.m <= kThin && is_thin_half(q); }

bool takes_half(const Matmul& q) {
  if (is_thin_half(q)) return true;
  if (q.dtype != Dtype::bf16 || double(q.m) * double(q.n) * double(q.k) < kMinWork || q.m < 16 ||
      q.n < 16 || q.k < 16 || q.accumulate || q.c_col != 1 || q.c_row < q.n ||
      !reads(q.a_row, q.a_col, q.m, q.k) || !reads(q.b_row, q.b_col, q.k, q.n))
    return false;
  const onednn::Library* library = onednn::open();
  if (!library || !library->bf16) return false;
  const Panels p = panels_of(q);
  return primitive_for(key_of(q, p, 0)) && primitive_for(key_of(q, p, p.count - 1));
}

void bf16_product(const Matmul& q) {
  const Panels panels = panels_of(q);
  const Key first = key_of(q, panels, 0), last = key_of(q, panels, panels.count - 1);
  const Primitive whole = primitive_for(first), rest = primitive_for(last);
  int64_t entries = 1;
  for (int d = 0; d < q.batch_dims; ++d) entries *= q.batch_size[d];
  parallel(entries * panels.count, true, [&](int64_t piece) {
    int64_t entry = piece / panels.count, a = 0, b = 0, c = 0;
    for (int d = q.batch_dims - 1; d >= 0; --d) {
      const int64_t index = entry % q.batch_size[d];
      entry /= q.batch_size[d];
      a += index * q.a_batch[d], b += index * q.b_batch[d], c += index * q.c_batch[d];
    }
    const int64_t i = piece % panels.count, from = i * panels.size;
    if (panels.by_rows) a += from * q.a_row, c += from * q.c_row;
    else b += from * q.b_col, c += from * q.c_col;
    const uint16_t *pa = static_cast<const uint16_t*>(q.a) + a,
                   *pb = static_cast<const uint16_t*>(q.b) + b;
    float* pc = static_cast<float*>(q.c) + c;
    const bool is_last = i == panels.count - 1;
    const Primitive& primitive = is_last ? rest : whole;
    if (primitive &&
        primitive.run({{onednn::kSource, pa}, {onednn::kWeights, pb}, {onednn::kResult, pc}}))
      count_onednn();
    else plain(is_last ? last : first, pa, pb, pc);
  });
}

}  // namespace mt
