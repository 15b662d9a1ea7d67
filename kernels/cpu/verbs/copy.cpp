// copy.cpp -- the copy verb on the CPU: rows, conversions, any order of dimensions
#include "kernels/cpu/simd/blocks.h"
#include "kernels/cpu/simd/storage_types.h"
#include "kernels/cpu/verbs/copy_bytes.h"
#include "kernels/cpu/verbs/elementwise.h"
#include "kernels/math/number.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class To, class From> void convert_run(char* out, const char* in, int64_t n) {
  To* to = reinterpret_cast<To*>(out);
  const From* from = reinterpret_cast<const From*>(in);
  for (int64_t i = 0; i < n; ++i) to[i] = math::convert<To>(from[i]);
}

template <class To, class From> constexpr ConvertLoop convert_as() {
  if constexpr (math::is_number<To> && math::is_number<From>) return convert_run<To, From>;
  else return nullptr;
}
#define MT_COLUMN(name, From, ...) convert_as<To, From>(),
template <class To> constexpr ConvertLoop converts_to[] = {MT_DTYPES(MT_COLUMN)};
#undef MT_COLUMN
#define MT_ROW(name, To, ...) converts_to<To>,
constexpr const ConvertLoop* converts[] = {MT_DTYPES(MT_ROW)};
#undef MT_ROW

/// Converts from or to a storage-only float through float32.
void convert_reduced(Dtype to, Dtype from, char* out, const char* in, int64_t n) {
  if (to == Dtype::f32) return load_converted(from, reinterpret_cast<float*>(out), in, n);
  if (from == Dtype::f32) return store_converted(to, out, reinterpret_cast<const float*>(in), n);
  constexpr int64_t kPiece = 1024;
  alignas(64) float middle[kPiece];
  char* const bytes = reinterpret_cast<char*>(middle);
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t here = smaller(kPiece, n - at);
    const char* const source = in + at * item_size(from);
    char* const target = out + at * item_size(to);
    if (is_reduced_float(from)) load_converted(from, middle, source, here);
    else converts[int(Dtype::f32)][int(from)](bytes, source, here);
    if (is_reduced_float(to)) store_converted(to, target, middle, here);
    else converts[int(to)][int(Dtype::f32)](target, bytes, here);
  }
}

// ---- rows ---------------------------------------------------------------------------------------

/// out[i] = in[0] for elements of the size of U. `next` is as in copy_bytes.
template <class U> void fill_run(char* out, const char* in, int64_t n, const char* next) {
  const U value = *reinterpret_cast<const U*>(in);
  constexpr int64_t kBytes = 1024, item = int64_t(sizeof(U));
  for (int64_t at = 0; at < n; at += kBytes / item) {
    if (next) fetch<kBytes>(out, at * item, n * item, next);
    U* to = reinterpret_cast<U*>(out) + at;
    const int64_t here = smaller(kBytes / item, n - at);
    MT_INDEPENDENT
    for (int64_t i = 0; i < here; ++i) to[i] = value;
  }
}

/// Copies a row of n elements. `next` is as in copy_bytes.
void copy_row(char* out, int64_t to, const char* in, int64_t from, int64_t n, int64_t item,
              const char* next) {
  if (to == 1 && from == 1) return copy_bytes(out, in, n * item, next);
  if (to != 1 || (from != 0 && from != -1)) return move_run(out, to, in, from, n, item);
  by_size(item, [&]<class U>(U) {
    if (from == 0) fill_run<U>(out, in, n, next);
    else reverse_few<U>(out, in - (n - 1) * item, n * item);
  });
}

/// Copies a row with non-temporal stores.
void stream_row(char* out, int64_t to, const char* in, int64_t from, int64_t n, int64_t item) {
  if (to != 1 || from < 0 || from > 1 || n * item < 512)
    return copy_row(out, to, in, from, n, item, nullptr);
  if (from == 1) return stream_bytes<false>(out, in, n * item);
  alignas(64) char line[64];
  move_run(line, 1, in, 0, 64 / item, item);
  stream_bytes<true>(out, line, n * item);
}

constexpr int64_t kFetch = 4096;     // elements; smaller results are not prefetched
constexpr int64_t kShortCopy = 512;  // elements; shorter rows are copied in groups

/// Copies a single row in strips; returns false if there are more.
bool one_row(const Copy& c) {
  if (c.ndim != 1) return false;
  const int64_t n = c.size[0], to = c.out_stride[0], from = c.in_stride[0], item = item_size(c.to);
  parallel_strips(n, [&](int64_t at, int64_t end) {
    char* const out = static_cast<char*>(c.out) + at * to * item;
    const char* const in = static_cast<const char*>(c.in) + at * from * item;
    const int64_t here = end - at;
    if (!c.streams)
      return copy_row(out, to, in, from, here, item, n > kFetch ? out + kGrain * item : nullptr);
    stream_row(out, to, in, from, here, item);
    finish_streams();
  });
  return true;
}

/// Copies the rows [first, end), which are short and have elements of the size of U.
template <class U> void copy_short(const Copy& c, int64_t first, int64_t end) {
  const int last = c.ndim - 1;
  const auto move =
      c.size[last] * int64_t(sizeof(U)) < 64 ? move_rows<false, U> : move_rows<true, U>;
  const auto copy_rows = [&](const int64_t(&offset)[2], int64_t rows) {
    move(static_cast<U*>(c.out) + offset[0], c.out_stride[last - 1], c.out_stride[last],
         static_cast<const U*>(c.in) + offset[1], c.in_stride[last - 1], c.in_stride[last], rows,
         c.size[last]);
  };
  each_group<2>(first, end, c.ndim, c.size, {c.out_stride, c.in_stride}, copy_rows);
}

/// Copies elements of one dtype by rows; returns false if one row is work for several threads.
bool by_rows(const Copy& c) {
  const int last = c.ndim - 1;
  if (c.ndim == 0 || c.size[last] > kGrain) return false;
  const int64_t item = item_size(c.to), n = c.size[last], all = count(last, c.size);
  const int64_t together = n < kGrain ? kGrain / n : 1;
  const bool fetches = last > 0 && all * n > kFetch && n * item >= 512;
  const int64_t next_row = fetches ? c.out_stride[last - 1] * item : 0;
  const bool is_short = last > 0 && n < kShortCopy && !c.streams;
  parallel_chunks(all, together, all * n > 2 * kGrain, [&](int64_t first, int64_t end) {
    if (is_short) return by_size(item, [&]<class U>(U) { copy_short<U>(c, first, end); });
    RowWalk<2> rows(first, last, c.size, {c.out_stride, c.in_stride});
    for (int64_t row = first; row < end; ++row, rows.next()) {
      char* const out = static_cast<char*>(c.out) + rows.offset[0] * item;
      const char* const in = static_cast<const char*>(c.in) + rows.offset[1] * item;
      const int64_t to = c.out_stride[last], from = c.in_stride[last];
      if (c.streams) stream_row(out, to, in, from, n, item);
      else copy_row(out, to, in, from, n, item, fetches ? out + next_row : nullptr);
    }
    if (c.streams) finish_streams();
  });
  return true;
}

}  // namespace

ConvertLoop convert_loop(Dtype to, Dtype from) { return converts[int(to)][int(from)]; }

void copy(const Copy& call) {
  Copy c = call;
  if (count(c.ndim, c.size) == 0) return;
  int64_t* const stride[2] = {c.out_stride, c.in_stride};
  c.ndim = collapse(c.ndim, c.size, stride);
  const bool same = c.to == c.from;
  const bool reduced = is_reduced_float(c.to) || is_reduced_float(c.from);
  const ConvertLoop convert = reduced ? nullptr : converts[int(c.to)][int(c.from)];
  const int64_t item = item_size(c.to);
  const auto prepare = [&](Operand* operand) {
    operand[0].set(c.out, item, c.ndim, c.size, c.out_stride);
    operand[1].set(const_cast<void*>(c.in), item_size(c.from), c.ndim, c.size, c.in_stride);
  };
  const auto run = [&](char* const* data, int64_t n, int) {
    if (same) __builtin_memcpy(data[0], data[1], n * item);
    else if (reduced) convert_reduced(c.to, c.from, data[0], data[1], n);
    else convert(data[0], data[1], n);
  };
  if (same && one_row(c)) return;
  if (in_tiles<2>(2, c.ndim, c.size, 1, false, prepare, run)) return;
  if (same && by_rows(c)) return;
  in_chunks<2>(2, c.ndim, c.size, 1, false, prepare, run);
}

}  // namespace MT_ISA
}  // namespace mt
