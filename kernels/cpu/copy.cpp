// copy.cpp -- the copy verb on the CPU: strided copies, conversions, transposition in tiles
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/verbs.h"
#include "kernels/number.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class To, class From> void convert_run(char* out, const char* in, int64_t n) {
  To* to = reinterpret_cast<To*>(out);
  const From* from = reinterpret_cast<const From*>(in);
  for (int64_t i = 0; i < n; ++i) to[i] = math::convert<To>(from[i]);
}

using Convert = void (*)(char*, const char*, int64_t);
#define MT_ROW(To)                                                                \
  {                                                                               \
    convert_run<To, bool>, convert_run<To, uint8_t>, convert_run<To, int32_t>,    \
        convert_run<To, int64_t>, convert_run<To, float>, convert_run<To, double> \
  }
constexpr Convert converts[kDtypes][kDtypes] = {MT_ROW(bool),    MT_ROW(uint8_t), MT_ROW(int32_t),
                                                MT_ROW(int64_t), MT_ROW(float),   MT_ROW(double)};
#undef MT_ROW

constexpr int64_t kTile = 16;

/// out[i, j] = in[j, i] in tiles, so that both sides are read and written a cache line at a time.
template <class U>
void transpose(U* out, int64_t out_row, const U* in, int64_t in_row, int64_t rows,
               int64_t columns) {
  for (int64_t i0 = 0; i0 < rows; i0 += kTile)
    for (int64_t j0 = 0; j0 < columns; j0 += kTile) {
      const int64_t i1 = smaller(i0 + kTile, rows), j1 = smaller(j0 + kTile, columns);
      for (int64_t i = i0; i < i1; ++i)
        for (int64_t j = j0; j < j1; ++j) out[i * out_row + j] = in[j * in_row + i];
    }
}

/// A plain matrix read by columns and written by rows; false when the copy is of another shape.
bool transposed(const Copy& c) {
  if (c.to != c.from || c.ndim != 2 || c.out_stride[1] != 1 || c.in_stride[0] != 1) return false;
  const int64_t rows = c.size[0], columns = c.size[1], item = item_size(c.to);
  constexpr int64_t kPanel = 64;
  parallel((rows + kPanel - 1) / kPanel, rows * columns > 2 * kGrain, [&](int64_t panel) {
    const int64_t first = panel * kPanel, n = smaller(kPanel, rows - first);
    char* out = static_cast<char*>(c.out) + first * c.out_stride[0] * item;
    const char* in = static_cast<const char*>(c.in) + first * item;
    auto go = [&](auto* to) {
      transpose(to, c.out_stride[0], reinterpret_cast<decltype(to)>(const_cast<char*>(in)),
                c.in_stride[1], n, columns);
    };
    if (item == 4) go(reinterpret_cast<uint32_t*>(out));
    else if (item == 8) go(reinterpret_cast<uint64_t*>(out));
    else go(reinterpret_cast<uint8_t*>(out));
  });
  return true;
}

/// Rows that are contiguous on both sides, such as a bias repeated: false when the copy is another.
bool by_rows(const Copy& c) {
  if (c.to != c.from || c.ndim != 2 || c.out_stride[1] != 1 || c.in_stride[1] != 1) return false;
  const int64_t item = item_size(c.to), total = c.size[0] * c.size[1];
  if (total > kGrain) return false;
  char* out = static_cast<char*>(c.out);
  const char* in = static_cast<const char*>(c.in);
  for (int64_t i = 0; i < c.size[0]; ++i)
    __builtin_memcpy(out + i * c.out_stride[0] * item, in + i * c.in_stride[0] * item,
                     size_t(c.size[1] * item));
  return true;
}

}  // namespace

void copy(const Copy& call) {
  Copy c = call;
  if (count(c.ndim, c.size) == 0) return;
  int64_t* const stride[2] = {c.out_stride, c.in_stride};
  c.ndim = collapse(c.ndim, c.size, stride);
  if (transposed(c) || by_rows(c)) return;
  const Convert run = converts[static_cast<int>(c.to)][static_cast<int>(c.from)];
  const bool same = c.to == c.from;
  const int64_t item = item_size(c.to);
  for_blocks<2>(
      2, c.ndim, c.size, 1,
      [&](Operand* operand) {
        operand[0].set(c.out, item_size(c.to), c.ndim, c.size, c.out_stride);
        operand[1].set(const_cast<void*>(c.in), item_size(c.from), c.ndim, c.size, c.in_stride);
      },
      [&](char* const* data, int64_t n) {
        if (same) __builtin_memcpy(data[0], data[1], size_t(n * item));
        else run(data[0], data[1], n);
      });
}

}  // namespace MT_ISA
}  // namespace mt
