// masks.cpp -- the CPU verbs that pack and unpack by a mask, find set elements, search sorted data
#include "kernels/cpu/simd/blocks.h"
#include "kernels/math/index_math.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

int64_t pieces_of(const Mask& m) { return ceil_div(m.n, kMaskPiece); }
bool worth_spreading(const Mask& m) { return m.n > 2 * kMaskPiece; }

// Each element is stored, and overwritten by the next one unless the mask is set, without a branch.
// The loops end at the last set element, so that nothing is written past the part of a piece.

template <class T> void compress_as(const Compress& c) {
  T* const whole = static_cast<T*>(c.whole);
  T* const packed = static_cast<T*>(c.packed);
  parallel(pieces_of(c.mask), worth_spreading(c.mask), [&](int64_t piece) {
    int64_t k = c.mask.before[piece];
    const int64_t end = c.mask.before[piece + 1];
    const bool* set = c.mask.set;
    if (c.unpack) {
      for (int64_t i = piece * kMaskPiece; k < end; ++i) {
        whole[i] = set[i] ? packed[k] : whole[i];
        k += set[i];
      }
    } else {
      for (int64_t i = piece * kMaskPiece; k < end; ++i) {
        packed[k] = whole[i];
        k += set[i];
      }
    }
  });
}

constexpr int kTogether = 16;

template <bool Right, class T> void search_as(const Search& s) {
  const int64_t total = s.rows * s.values;
  const T* value = static_cast<const T*>(s.value);
  parallel_chunks(total, kMaskPiece, total > kMaskPiece, [&](int64_t i, int64_t end) {
    while (i < end) {
      const int64_t row = i / s.values, stop = smaller(end, (row + 1) * s.values);
      const T* const begin = static_cast<const T*>(s.sorted) + row * s.sorted_row;
      for (; i + kTogether <= stop; i += kTogether) {
        int64_t place[kTogether];
        places_among<Right, kTogether>(begin, s.sorted_size, value + i, place);
        for (int k = 0; k < kTogether; ++k) s.out[i + k] = s.first + place[k];
      }
      for (; i < stop; ++i) s.out[i] = s.first + place_among<Right>(begin, s.sorted_size, value[i]);
    }
  });
}

template <class T> void search_side(const Search& s) {
  if (s.right) search_as<true, T>(s);
  else search_as<false, T>(s);
}

}  // namespace

void count_mask(const Mask& m) {
  parallel_chunks(m.n, kMaskPiece, worth_spreading(m), [&](int64_t i, int64_t end) {
    int64_t* const total = m.before + i / kMaskPiece + 1;
    int64_t sum = 0;
    while (i < end) {
      uint8_t few = 0;  // at most 255: fits in a byte, and a register holds many bytes
      const int64_t stop = smaller(end, i + 255);
      for (; i < stop; ++i) few = uint8_t(few + uint8_t(m.set[i]));
      sum += few;
    }
    *total = sum;
  });
  m.before[0] = 0;
  for (int64_t piece = 0; piece < pieces_of(m); ++piece) m.before[piece + 1] += m.before[piece];
}

void compress(const Compress& c) {
  with_item(c.dtype, [&](auto x) { compress_as<decltype(x)>(c); });
}

void nonzero(const Nonzero& z) {
  if (z.ndim == 0) return;
  const int last = z.ndim - 1;
  const int64_t row = z.size[last], total = z.mask.before[pieces_of(z.mask)];
  int64_t* const columns = z.out + last * total;
  parallel(pieces_of(z.mask), worth_spreading(z.mask), [&](int64_t piece) {
    int64_t k = z.mask.before[piece];
    const int64_t end = z.mask.before[piece + 1];
    int64_t at[kMaxDims], i = piece * kMaskPiece, rest = i;
    for (int d = last; d >= 0; --d) at[d] = rest % z.size[d], rest /= z.size[d];
    while (k < end) {
      const int64_t begin = k;
      const bool* set = z.mask.set + i;
      for (int64_t j = at[last]; j < row && k < end; ++j) {
        columns[k] = z.first + j;
        k += *set++;
      }
      for (int d = 0; d < last; ++d)
        for (int64_t m = begin; m < k; ++m) z.out[d * total + m] = z.first + at[d];
      i += row - at[last], at[last] = 0;
      for (int d = last - 1; d >= 0 && ++at[d] == z.size[d]; --d) at[d] = 0;
    }
  });
}

void search(const Search& s) {
  with_number(s.dtype, [&](auto x) { search_side<decltype(x)>(s); });
}

}  // namespace MT_ISA
}  // namespace mt
