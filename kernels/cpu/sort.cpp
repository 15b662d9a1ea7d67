// sort.cpp -- the sort verb on the CPU: a stable radix sort, and selection where few are wanted
//
// An element becomes a key (kernels/keys.h), which travels with its position, so that equal keys
// stay in their order and values are read back at the end.
#include "kernels/cpu/lines.h"
#include "kernels/keys.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

// ---- sorting ------------------------------------------------------------------------------------

constexpr int64_t kInsertion = 40;  // up to so many by insertion
constexpr int64_t kManyItems = 1 << 16;

template <class I> void insertion_sort(I* x, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const I moved = x[i];
    int64_t k = i;
    for (; k > 0 && key_in(x[k - 1]) > key_in(moved); --k) x[k] = x[k - 1];
    x[k] = moved;
  }
}

/// Least significant digit first; digits that all items share are passed over. Returns where the
/// result lies: x or `other`.
template <int Bits, class I> I* radix_sort(I* x, I* other, int64_t n) {
  using K = decltype(key_in(*x));
  constexpr int digits = (int(sizeof(K)) * 8 + Bits - 1) / Bits, values = 1 << Bits;
  constexpr K mask = values - 1;
  uint64_t place[digits][values];
  __builtin_memset(place, 0, sizeof place);
  for (int64_t i = 0; i < n; ++i) {
    const K key = key_in(x[i]);
    for (int d = 0; d < digits; ++d) ++place[d][key >> (Bits * d) & mask];
  }
  for (int d = 0; d < digits; ++d) {
    uint64_t* at = place[d];
    if (at[key_in(x[0]) >> (Bits * d) & mask] == uint64_t(n)) continue;
    uint64_t sum = 0;
    for (int v = 0; v < values; ++v) {
      const uint64_t here = at[v];
      at[v] = sum;
      sum += here;
    }
    for (int64_t i = 0; i < n; ++i) other[at[key_in(x[i]) >> (Bits * d) & mask]++] = x[i];
    I* const sorted = other;
    other = x, x = sorted;
  }
  return x;
}

template <class I> I* sort_items(I* x, I* other, int64_t n) {
  if (n <= kInsertion) return insertion_sort(x, n), x;
  return n < kManyItems ? radix_sort<8>(x, other, n) : radix_sort<11>(x, other, n);
}

// ---- selecting ----------------------------------------------------------------------------------

template <class K> struct Rank {
  K key;
  int64_t before;  // how many keys are smaller
};

/// The key that sorting would bring to place `rank`: the digit that holds it is found from the most
/// significant one on, each time among the keys that share the digits before. Uses `scratch`.
template <int Bits, class K> Rank<K> select_rank(const K* x, K* scratch, int64_t n, int64_t rank) {
  constexpr int values = 1 << Bits, ways = 4;
  constexpr K mask = values - 1;
  int64_t before = 0;
  for (int shift = int(sizeof(K)) * 8;;) {
    const int bits = shift < Bits ? shift : Bits;
    shift -= bits;
    uint32_t counts[ways][values] = {};
    int64_t tally[values];
    for (int v = 0; v < values; ++v) tally[v] = 0;
    constexpr int64_t most = int64_t(1) << 30;  // a count must fit
    for (int64_t from = 0; from < n; from += most) {
      const int64_t end = smaller(n, from + most);
      int64_t i = from;
      for (; i + ways <= end; i += ways)
        for (int w = 0; w < ways; ++w) ++counts[w][x[i + w] >> shift & mask];
      for (; i < end; ++i) ++counts[0][x[i] >> shift & mask];
      for (int v = 0; v < values; ++v)
        for (int w = 0; w < ways; ++w) tally[v] += counts[w][v], counts[w][v] = 0;
    }
    int digit = 0;
    while (before + tally[digit] <= rank) before += tally[digit++];
    if (shift == 0 || tally[digit] == 1 || tally[digit] == n) {
      K key = 0;
      int64_t i = 0;
      while ((x[i] >> shift & mask) != K(digit)) ++i;
      key = x[i];
      if (shift == 0 || tally[digit] == 1) return {key, before};
      continue;  // nothing to leave out
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      const K key = x[i];
      scratch[kept] = key;
      kept += (key >> shift & mask) == K(digit);
    }
    x = scratch, n = kept;
  }
}

constexpr int64_t kFew = 32;
/// The `few` smallest items, sorted: each that is smaller than the largest of them is inserted.
template <class K, class I> void smallest_items(const K* key, int64_t n, int64_t few, I* x) {
  for (int64_t i = 0; i < few; ++i) x[i] = item(key[i], i);
  insertion_sort(x, few);
  K most = key_in(x[few - 1]);
  for (int64_t i = few; i < n; ++i) {
    if (key[i] >= most) continue;
    int64_t k = few - 1;
    for (; k > 0 && key_in(x[k - 1]) > key[i]; --k) x[k] = x[k - 1];
    x[k] = item(key[i], i);
    most = key_in(x[few - 1]);
  }
}

/// The items of the places [first, first + keep), sorted.
template <class K, class I>
I* select_items(const K* key, int64_t n, int64_t first, int64_t keep, K* spare, I* x, I* other) {
  const auto ranked = [&](int64_t rank) {
    return n < kManyItems ? select_rank<8>(key, spare, n, rank)
                          : select_rank<11>(key, spare, n, rank);
  };
  if (first + keep <= kFew) return smallest_items(key, n, first + keep, x), x + first;
  const Rank<K> low = first == 0 ? Rank<K>{0, 0} : ranked(first);
  const Rank<K> high = keep == 1 && first > 0 ? low : ranked(first + keep - 1);
  int64_t skip = first - low.before, room = first + keep - high.before, found = 0;
  for (int64_t i = 0; i < n && found < keep; ++i) {
    const K k = key[i];
    if (k < low.key || k > high.key) continue;
    if (k == high.key && room-- <= 0) continue;
    if (k == low.key && skip-- > 0) continue;
    x[found++] = item(k, i);
  }
  return sort_items(x, other, found);
}

// ---- lines --------------------------------------------------------------------------------------

template <class T, class K> struct Sorter {
  using I = Item<K>;

  static void write(const Sort& s, const Lines& l, int64_t line, const T* in, const I* sorted) {
    T* out = static_cast<T*>(s.out) + out_at(l, line);
    int64_t* index = s.index + out_at(l, line);
    const K turn = s.descending ? ~K(0) : K(0);
    for (int64_t i = 0; i < s.keep; ++i) {
      const auto key = KeyOf<T>(key_in(sorted[i]) ^ turn);
      const int64_t at = at_in(sorted[i]);
      out[i * l.out_step] = ambiguous<T>(key) ? in[at * l.in_step] : value_of<T>(key);
      index[i * l.out_step] = at;
    }
  }

  static void line(const Sort& s, const Lines& l, int64_t number, char* scratch) {
    const T* in = static_cast<const T*>(s.in) + in_at(l, number);
    const K turn = s.descending ? ~K(0) : K(0);
    const int64_t n = l.n;
    if (s.keep <= n / 4 && n > kInsertion) {
      K* key = reinterpret_cast<K*>(scratch);
      K* spare = key + n;
      I* x = reinterpret_cast<I*>(scratch + (2 * n * int64_t(sizeof(K)) + 63) / 64 * 64);
      for (int64_t i = 0; i < n; ++i) key[i] = K(key_of(in[i * l.in_step])) ^ turn;
      return write(s, l, number, in,
                   select_items(key, n, s.first, s.keep, spare, x, x + s.keep + kFew));
    }
    I *x = reinterpret_cast<I*>(scratch), *other = x + n;
    for (int64_t i = 0; i < n; ++i) x[i] = item(K(K(key_of(in[i * l.in_step])) ^ turn), i);
    write(s, l, number, in, sort_items(x, other, n) + s.first);
  }

  static void sort(const Sort& s, const Lines& l) {
    const int64_t lines = count(l.ndim, l.size), group = l.n < 256 ? 64 : 1;
    parallel((lines + group - 1) / group, lines * l.n > kGrain / 4, [&](int64_t g) {
      char* scratch = static_cast<char*>(s.scratch) + worker_number() * sort_scratch(l.n);
      const int64_t end = smaller(lines, (g + 1) * group);
      for (int64_t i = g * group; i < end; ++i) line(s, l, i, scratch);
    });
  }
};

template <class T> void run(const Sort& s) {
  const Lines l = collapsed(s.lines);
  if (l.n < INT32_MAX) return Sorter<T, KeyOf<T>>::sort(s, l);
  Sorter<T, uint64_t>::sort(s, l);
}

}  // namespace

void sort(const Sort& s) {
  if (s.keep == 0 || count(s.lines.ndim, s.lines.size) == 0) return;
  switch (s.dtype) {
    case Dtype::f32: return run<float>(s);
    case Dtype::f64: return run<double>(s);
    case Dtype::i64: return run<int64_t>(s);
    case Dtype::i32: return run<int32_t>(s);
    default: return run<uint8_t>(s);  // bool too
  }
}

}  // namespace MT_ISA
}  // namespace mt
