// sort.cpp -- the sort verb on the CPU: a stable radix sort, and selection of a few elements
//
// An element is converted to a key (kernels/math/sort_keys.h) and sorted with its position, so that
// the sort is stable, and values are converted back from keys at the end. The result is unique, so
// that bits do not depend on how the work is split. Threads split lines, or share a long one.
#include "kernels/cpu/verbs/along_dim.h"
#include "kernels/math/sort_keys.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

// ---- sorting ------------------------------------------------------------------------------------

constexpr int64_t kInsertion = 40;  // up to this many items are sorted by insertion, or by rank
constexpr int64_t kBlock = 256;     // this many items are copied at a time
/// Bits beyond those that distinguish evenly spread keys, since exponents are not spread evenly.
template <class K> constexpr int kSpare = sizeof(K) == 4 ? 8 : 13;
constexpr int kSpareOfPart = 5;  // the exponents in one part of a long line are similar

inline int bits_in(uint32_t k) { return k ? 32 - __builtin_clz(k) : 0; }
inline int bits_in(uint64_t k) { return k ? 64 - __builtin_clzll(k) : 0; }

template <class I> void insertion_sort(I* x, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const I moved = x[i];
    int64_t k = i;
    for (; k > 0 && key_in(x[k - 1]) > key_in(moved); --k) x[k] = x[k - 1];
    x[k] = moved;
  }
}

/// Sorts a few items, which are all different because of their positions: the rank of an item is
/// the number of smaller ones. It has no data-dependent branches, unlike insertion sort.
inline void rank_sort(const uint64_t* x, uint64_t* out, int64_t n) {
  constexpr int64_t kLanes = 8;
  for (int64_t i = 0; i < n && n < kLanes; ++i) {
    int64_t rank = 0;
    for (int64_t j = 0; j < n; ++j) rank += x[j] < x[i];
    out[rank] = x[i];
  }
  for (int64_t i = 0; i < n && n >= kLanes; i += kLanes) {
    const int64_t here = smaller(kLanes, n - i);
    uint64_t some[kLanes] = {}, rank[kLanes] = {};
    for (int64_t l = 0; l < here; ++l) some[l] = x[i + l];
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < kLanes; ++l) rank[l] += x[j] < some[l];
    for (int64_t l = 0; l < here; ++l) out[rank[l]] = some[l];
  }
}

/// out[k] = x[i + k] for k in [0, n).
template <class I> void read(const I* x, I* out, int64_t i, int64_t n) {
  __builtin_memcpy(out, x + i, sizeof(I) * n);
}
/// Calls `body(block, n)` with copies of x[i], .., x[end - 1] in blocks.
template <class I> inline void each_block(const auto& x, int64_t i, int64_t end, const auto& body) {
  I block[kBlock];
  for (; i < end; i += kBlock) {
    const int64_t n = smaller(kBlock, end - i);
    read(x, block, i, n);
    body(block, n);
  }
}

template <class K> struct Range {
  K least, most;
  void include(K low, K high) {
    least = low < least ? low : least;
    most = high > most ? high : most;
  }
};
/// The range of the keys of x[0], .., x[n - 1].
template <class I> auto range_of(const I* x, int64_t n) {
  auto first = key_in(x[0]);
  Range<decltype(first)> range{first, first};
  for (int64_t i = 0; i < n; ++i) range.include(key_in(x[i]), key_in(x[i]));
  return range;
}

/// The bits in which the keys differ.
template <class I> auto differing_bits(const I* x, int64_t n) {
  const auto first = key_in(x[0]);
  auto differ = first ^ first;
  for (int64_t i = 1; i < n; ++i) differ |= key_in(x[i]) ^ first;
  return differ;
}

/// Sorts by the highest bits in which keys differ, least significant digit first: as many bits as
/// distinguish evenly spread keys, and `spare` more. Then each run of items that are equal in these
/// bits is sorted by the others. Returns the buffer with the result: x or `other`.
template <class I> I* sort_items(I* x, I* other, int64_t n, int spare) {
  using K = decltype(key_in(*x));
  if (n <= kInsertion) {
    if constexpr (std::is_same_v<I, uint64_t>) return rank_sort(x, other, n), other;
    else return insertion_sort(x, n), x;
  }
  const K differ = differing_bits(x, n);
  if (differ == 0) return x;
  const int top = bits_in(differ), lowest = bits_in(K(differ & -differ)) - 1;
  const int enough = smaller(top - lowest, bits_in(uint64_t(n)) + spare);
  const int widest = n < 1000 ? 9 : n < 4096 ? 11 : 12, passes = (enough + widest - 1) / widest;
  const int digit = (enough + passes - 1) / passes, all = smaller(top, passes * digit);
  const K mask = (K(1) << digit) - 1;
  for (int low = top - all; low < top; low += digit) {
    const auto value = [&](const I& one) { return key_in(one) >> low & mask; };
    uint32_t place[1 << 12], odd[1 << 12];  // two, so that equal neighbours are independent
    __builtin_memset(place, 0, sizeof(uint32_t) << digit);
    __builtin_memset(odd, 0, sizeof(uint32_t) << digit);
    for (int64_t i = 1; i < n; i += 2) ++place[value(x[i - 1])], ++odd[value(x[i])];
    if (n % 2 == 1) ++place[value(x[n - 1])];
    uint32_t sum = 0;
    for (K v = 0; v <= mask; ++v) {
      const uint32_t here = place[v] + odd[v];
      place[v] = sum;
      sum += here;
    }
    for (int64_t i = 0; i < n; ++i) other[place[value(x[i])]++] = x[i];
    I* const sorted = other;
    other = x, x = sorted;
  }
  const int cut = top - all;
  for (int64_t i = 1, end; cut > lowest && i < n; i = end) {
    end = i + 1;
    if (key_in(x[i]) >= key_in(x[i - 1])) continue;
    const K alike = key_in(x[i]) >> cut;
    while (i > 0 && key_in(x[i - 1]) >> cut == alike) --i;
    while (end < n && key_in(x[end]) >> cut == alike) ++end;
    const I* const sorted = sort_items(x + i, other + i, end - i, spare);
    if (sorted != x + i) __builtin_memcpy(x + i, sorted, sizeof(I) * (end - i));
  }
  return x;
}

// ---- selecting ----------------------------------------------------------------------------------

template <class K> struct Rank {
  K key;
  int64_t before;  // the number of smaller keys
};

/// The key at position `rank` of the sorted order: its digits are found from the most significant
/// one on, each time among the keys that have the same digits before it. Uses `scratch`.
template <class K> Rank<K> select_rank(const K* x, K* scratch, int64_t n, int64_t rank) {
  constexpr int bits = 8, values = 1 << bits, ways = 4;
  int64_t before = 0;
  for (int shift = 8 * int(sizeof(K)) - bits;; shift -= bits) {
    const auto value = [&](K key) { return int(key >> shift & K(values - 1)); };
    uint32_t counts[ways][values] = {};
    int64_t i = 0;
    for (; i + ways <= n; i += ways)
      for (int w = 0; w < ways; ++w) ++counts[w][value(x[i + w])];
    for (; i < n; ++i) ++counts[0][value(x[i])];
    const auto many = [&](int v) {
      return int64_t(counts[0][v]) + counts[1][v] + counts[2][v] + counts[3][v];
    };
    int digit = 0;
    while (before + many(digit) <= rank) before += many(digit++);
    if (shift == 0 || many(digit) == 1) {
      for (i = 0; value(x[i]) != digit;) ++i;
      return {x[i], before};
    }
    if (many(digit) == n) continue;  // all keys have this digit
    int64_t kept = 0;
    for (i = 0; i < n; ++i) {
      const K key = x[i];
      scratch[kept] = key;
      kept += value(key) == digit;
    }
    x = scratch, n = kept;
  }
}

constexpr int64_t kFew = 32;
/// The `few` smallest items of x[i], .., x[end - 1], or all of them, sorted: each item that is
/// smaller than the largest so far is inserted.
template <class I> void smallest_items(const auto& x, int64_t i, int64_t end, int64_t few, I* out) {
  read(x, out, i, smaller(few, end - i));
  insertion_sort(out, smaller(few, end - i));
  each_block<I>(x, i + few, end, [&](const I* block, int64_t n) {
    auto most = key_in(out[few - 1]);
    if (range_of(block, n).least >= most) return;
    for (int64_t j = 0; j < n; ++j) {
      if (key_in(block[j]) >= most) continue;
      int64_t k = few - 1;
      for (; k > 0 && key_in(out[k - 1]) > key_in(block[j]); --k) out[k] = out[k - 1];
      out[k] = block[j];
      most = key_in(out[few - 1]);
    }
  });
}

/// The items at the positions [first, first + keep) of the sorted order, sorted.
template <class K, class I>
I* select_items(const K* key, int64_t n, int64_t first, int64_t keep, K* spare, I* x, I* other) {
  const auto ranked = [&](int64_t rank) { return select_rank(key, spare, n, rank); };
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
  return sort_items(x, other, found, kSpare<K>);
}

// ---- lines --------------------------------------------------------------------------------------

/// A line: its elements as items, and where the positions [first, end) of its sorted order are
/// written. Code that depends on the type of the elements is behind three function pointers.
template <class K> struct Line {
  using I = Item<K>;
  const void* in;
  void* out;
  int64_t* index;
  int64_t n, out_step, first, end;
  K flip_mask;
  void (*read_items)(const Line&, I* items, int64_t i, int64_t n);
  void (*read_keys)(const Line&, K* keys);
  /// Writes n sorted items to the positions from first + i on.
  void (*write_items)(const Line&, const I* items, int64_t i, int64_t n);

  /// Writes the positions [from, stop), if requested, of sorted items; the first one is at `base`.
  void write(const I* items, int64_t base, int64_t from, int64_t stop) const {
    if (from < first) from = first;
    write_items(*this, items + (from - base), from - first, smaller(stop, end) - from);
  }

  void sort(char* scratch) const {
    const int64_t keep = end - first;
    if (end <= kFew && (n > kInsertion || 4 * end <= n)) {
      I* const x = reinterpret_cast<I*>(scratch);
      smallest_items(*this, 0, n, end, x);
      return write(x, 0, 0, end);
    }
    if (n > kInsertion && keep <= n / 4) {
      K* key = reinterpret_cast<K*>(scratch);
      K* spare = key + n;
      I* x = reinterpret_cast<I*>(scratch + (2 * n * int64_t(sizeof(K)) + 63) / 64 * 64);
      read_keys(*this, key);
      return write(select_items(key, n, first, keep, spare, x, x + keep), first, first, end);
    }
    I *x = reinterpret_cast<I*>(scratch), *other = x + n;
    read_items(*this, x, 0, n);
    write(sort_items(x, other, n, kSpare<K>), 0, 0, n);
  }
};

template <class K> void read(const Line<K>& x, Item<K>* out, int64_t i, int64_t n) {
  x.read_items(x, out, i, n);
}

template <class T, class K> struct Elements {
  using I = Item<K>;
  static void read_items(const Line<K>& line, I* items, int64_t i, int64_t n) {
    const T* const in = static_cast<const T*>(line.in) + i;
    const K flip_mask = line.flip_mask;
    MT_INDEPENDENT for (int64_t k = 0; k < n; ++k) items[k] =
        item(K(K(key_of(in[k])) ^ flip_mask), i + k);
  }
  static void read_keys(const Line<K>& line, K* keys) {
    const T* const in = static_cast<const T*>(line.in);
    const K flip_mask = line.flip_mask;
    const int64_t n = line.n;
    MT_INDEPENDENT for (int64_t i = 0; i < n; ++i) keys[i] = K(key_of(in[i])) ^ flip_mask;
  }
  static void write_items(const Line<K>& line, const I* items, int64_t at, int64_t n) {
    const int64_t out_step = line.out_step;
    T* const values = static_cast<T*>(line.out) + at * out_step;
    int64_t* const places = line.index + at * out_step;
    const K flip = line.flip_mask;
    bool has_ambiguous = false;
    const auto all = [&](int64_t step) {
      MT_INDEPENDENT for (int64_t i = 0; i < n; ++i) {
        const I one = items[i];
        const auto key = KeyOf<T>(key_in(one) ^ flip);
        values[i * step] = value_of<T>(key);
        places[i * step] = at_in(one);
        has_ambiguous |= ambiguous<T>(key);
      }
    };
    if (out_step == 1) all(1);
    else all(out_step);
    for (int64_t i = 0; has_ambiguous && i < n; ++i)
      if (const I one = items[i]; ambiguous<T>(KeyOf<T>(key_in(one) ^ flip)))
        values[i * out_step] = static_cast<const T*>(line.in)[at_in(one)];
  }
  static Line<K> line(const Sort& s, const AlongDim& l, int64_t number) {
    const int64_t out = out_at(l, number);
    return {static_cast<const T*>(s.in) + in_at(l, number),
            static_cast<T*>(s.out) + out,
            s.index + out,
            l.n,
            l.out_step,
            s.first,
            s.first + s.keep,
            s.descending ? ~K(0) : K(0),
            read_items,
            read_keys,
            write_items};
  }
};

// ---- long lines ---------------------------------------------------------------------------------

/// The digit of a key is its distance from the least key, divided by 2^low; keys below and above
/// the range have a separate digit on either side.
template <class K> struct Digits {
  K least, last = 0;
  int low = 0;

  Digits(const Range<K>& range, int bits) : least(range.least) {
    const K span = range.most - range.least;
    while (span >> low >= (K(1) << bits) - 2) ++low;
    last = (span >> low) + 1;
  }
  int values() const { return int(last) + 2; }
  uint32_t operator()(K key) const {
    const K far = (key - least) >> low;
    return key < least ? 0 : uint32_t(far < last ? far : last) + 1;
  }
  /// Whether all keys with this digit are equal.
  bool alike(int digit) const { return low == 0 && digit > 0 && digit <= int(last); }
};

/// Threads share a long line: its items are partitioned by one digit, and then the items of each
/// value of the digit are sorted independently, while they fit in a cache.
template <class K> struct LongLine {
  static constexpr int kBits = 11;  // of a digit
  static constexpr int64_t kChunk = 1 << 15, kMaxChunks = 512, kSample = 1024;
  using I = Item<K>;
  using Place = KeyOf<K>;
  const Line<K>& line;
  Place* table;  // the count of each digit in each chunk; then the position of the first such item

  static int64_t chunk_of(int64_t n) { return larger(ceil_div(n, kMaxChunks), kChunk); }
  /// Calls `body(c, i, end)` for each chunk of n items.
  static void each_chunk(int64_t n, const auto& body) {
    const int64_t chunk = chunk_of(n);
    parallel_chunks(n, chunk, true, [&](int64_t i, int64_t end) { body(i / chunk, i, end); });
  }
  /// Calls `body(block, digits, m)` for the items x[i], .., x[end - 1], m at a time.
  static void each_digit(const Digits<K>& digits, const auto& x, int64_t i, int64_t end,
                         const auto& body) {
    each_block<I>(x, i, end, [&](I* block, int64_t m) {
      uint32_t digit[kBlock];
      const Digits<K> of = digits;
      for (int64_t k = 0; k < m; ++k) digit[k] = of(key_in(block[k]));
      body(block, digit, m);
    });
  }

  /// The range of every `step`-th key.
  static Range<K> range_of_some(const auto& x, int64_t n, int64_t step) {
    I one;
    read(x, &one, 0, 1);
    Range<K> range{key_in(one), key_in(one)};
    for (int64_t i = step; i < n; i += step) {
      read(x, &one, i, 1);
      range.include(key_in(one), key_in(one));
    }
    return range;
  }
  Range<K> exact_range(const auto& x, int64_t n) const {
    Range<K> range = range_of_some(x, n, n);
    each_chunk(n, [&](int64_t c, int64_t i, int64_t end) {
      Range<K> r = range;
      each_block<I>(x, i, end, [&](const I* block, int64_t m) {
        const Range<K> here = range_of(block, m);
        r.include(here.least, here.most);
      });
      table[2 * c] = r.least, table[2 * c + 1] = r.most;
    });
    for (int64_t c = 0; c * chunk_of(n) < n && !mt_interrupted; ++c)
      range.include(table[2 * c], table[2 * c + 1]);
    return range;
  }
  void count_digits(const Digits<K>& digits, const auto& x, int64_t n) const {
    const int values = digits.values();
    each_chunk(n, [&](int64_t c, int64_t i, int64_t end) {
      uint32_t counts[4][1 << kBits];  // so that equal neighbours do not wait for each other
      for (int w = 0; w < 4; ++w) __builtin_memset(counts[w], 0, sizeof(uint32_t) * values);
      each_digit(digits, x, i, end, [&](const I*, const uint32_t* digit, int64_t m) {
        int64_t k = 0;
        for (; k + 4 <= m; k += 4)
          for (int w = 0; w < 4; ++w) ++counts[w][digit[k + w]];
        for (; k < m; ++k) ++counts[0][digit[k]];
      });
      for (int v = 0; v < values; ++v)
        table[c * values + v] = Place(counts[0][v]) + counts[1][v] + counts[2][v] + counts[3][v];
    });
  }

  /// Moves the items with the digits first to last to their positions in the table: `total` items.
  void move(const Digits<K>& digits, const auto& x, int64_t n, int first, int last, int64_t total,
            I* to) const {
    const int values = digits.values();
    const uint32_t least = uint32_t(first), most = uint32_t(last - first);
    // Touches new memory here: else the first chunk would fault it all in without checking Ctrl-C.
    each_chunk(total, [&](int64_t, int64_t i, int64_t end) {
      for (; i < end; i += int64_t(4096 / sizeof(I))) to[i] = I{};
    });
    each_chunk(n, [&](int64_t c, int64_t i, int64_t end) {
      Place* const at = table + c * values;
      each_digit(digits, x, i, end, [&](I* block, uint32_t* digit, int64_t m) {
        if (most + 1 < uint32_t(values)) {
          int64_t kept = 0;
          for (int64_t k = 0; k < m; ++k) {
            block[kept] = block[k], digit[kept] = digit[k];
            kept += digit[k] - least <= most;
          }
          m = kept;
        }
        for (int64_t k = 0; k < m; ++k) to[at[digit[k]]++] = block[k];
      });
    });
  }

  /// Sorts n items whose positions start at `place`; `to` and `other` have space for them. The
  /// range of the keys is estimated from a sample unless `exact`.
  void sort(const auto& x, int64_t n, int64_t place, I* to, I* other, bool exact) const {
    Range<K> range = range_of_some(x, n, exact ? n : n / kSample);
    if (range.least == range.most) range = exact_range(x, n);
    if (range.least == range.most) return write(x, place, n);
    const Digits<K> digits(range, smaller(kBits, bits_in(uint64_t(n)) - 10));
    const int values = digits.values();
    count_digits(digits, x, n);
    if (mt_interrupted) return;  // the table is incomplete

    int64_t begin[(1 << kBits) + 1] = {};
    const int64_t chunks = ceil_div(n, chunk_of(n));
    for (int64_t c = 0; c < chunks; ++c)
      for (int v = 0; v < values; ++v) begin[v + 1] += int64_t(table[c * values + v]);
    for (int v = 0; v < values; ++v) begin[v + 1] += begin[v];
    int first = 0, last = values - 1;  // the digits that are requested
    while (place + begin[first + 1] <= line.first) ++first;
    while (place + begin[last] >= line.end) --last;
    place += begin[first];
    for (int v = values; v >= 0; --v) begin[v] -= begin[first];

    Place next[1 << kBits];
    for (int v = 0; v < values; ++v) next[v] = Place(begin[v]);
    for (int64_t c = 0; c < chunks; ++c)
      for (int v = 0; v < values; ++v) {
        const Place here = table[c * values + v];
        table[c * values + v] = next[v];
        next[v] += here;
      }
    move(digits, x, n, first, last, begin[last + 1], to);

    const int64_t sixth = n / 6, large = sixth < kChunk ? kChunk : smaller(sixth, 6 * kChunk);
    parallel(last + 1 - first, true, [&](int64_t k) {
      const int v = first + int(k);
      const int64_t at = begin[v], many = begin[v + 1] - at;
      if (many > large) return;
      const I* sorted = to + at;
      if (!digits.alike(v)) sorted = sort_items(to + at, other + at, many, kSpareOfPart);
      line.write(sorted, place + at, place + at, place + at + many);
    });
    for (int v = first; v <= last && !mt_interrupted; ++v) {
      const int64_t at = begin[v], many = begin[v + 1] - at;
      if (many <= large) continue;
      if (digits.alike(v)) write(to + at, place + at, many);
      else sort(to + at, many, place + at, other + at, to + at, true);
    }
  }

  void write(const auto& sorted, int64_t place, int64_t n) const {
    each_chunk(n, [&](int64_t, int64_t i, int64_t end) {
      int64_t at = place + i;
      each_block<I>(sorted, i, end, [&](const I* block, int64_t m) {
        line.write(block, at, at, at + m);
        at += m;
      });
    });
  }

  /// Selects the first positions, at most kFew, from the smallest items of each chunk.
  void select_few(I* x, I* other) const {
    const int64_t few = line.end, n = line.n, whole = (n - 1) / chunk_of(n);
    each_chunk(n, [&](int64_t c, int64_t i, int64_t end) {
      smallest_items(line, i, end, few, x + c * few);
    });
    if (mt_interrupted) return;
    smallest_items(x, 0, whole * few + smaller(few, n - whole * chunk_of(n)), few, other);
    line.write(other, 0, 0, few);
  }
};

constexpr int64_t kShortLine = 16, kLines = 64;

/// Sorts short lines step by step, so that a step reads data that has already left the store buffer.
template <class T, class K>
void sort_short(const Sort& s, const AlongDim& l, int64_t i, int64_t end) {
  Item<K> x[kLines * kShortLine], other[kLines * kShortLine], *sorted[kLines];
  Line<K> line[kLines];
  const int64_t lines = end - i;
  for (int64_t k = 0; k < lines; ++k) {
    line[k] = Elements<T, K>::line(s, l, i + k);
    Elements<T, K>::read_items(line[k], x + k * l.n, 0, l.n);
  }
  for (int64_t k = 0; k < lines; ++k)
    sorted[k] = sort_items(x + k * l.n, other + k * l.n, l.n, kSpare<K>);
  for (int64_t k = 0; k < lines; ++k) line[k].write(sorted[k], 0, 0, l.n);
}

template <class T, class K> void sort_lines(const Sort& s, const AlongDim& l) {
  const int64_t lines = count(l.ndim, l.size), group = l.n < 256 ? kLines : 1;
  char* const scratch = static_cast<char*>(s.scratch);
  if (l.n <= kShortLine)
    return parallel_chunks(lines, kLines, lines * l.n > kGrain / 4,
                           [&](int64_t i, int64_t end) { sort_short<T, K>(s, l, i, end); });
  if (l.n < kLongLine)
    return parallel_chunks(lines, group, lines * l.n > kGrain / 4, [&](int64_t i, int64_t end) {
      for (; i < end; ++i)
        Elements<T, K>::line(s, l, i).sort(scratch +
                                           worker_number() * sort_scratch(sizeof(T), l.n));
    });
  auto *x = reinterpret_cast<Item<K>*>(scratch), *other = x + l.n;
  for (int64_t i = 0; i < lines && !mt_interrupted; ++i) {
    const Line<K> line = Elements<T, K>::line(s, l, i);
    const LongLine<K> together{line, reinterpret_cast<KeyOf<K>*>(other + l.n)};
    if (line.end <= kFew) together.select_few(x, other);
    else together.sort(line, l.n, 0, x, other, false);
  }
}

template <class T> void run(const Sort& s) {
  const AlongDim l = collapsed(s.lines);
  if (l.n < INT32_MAX) return sort_lines<T, KeyOf<T>>(s, l);
  sort_lines<T, uint64_t>(s, l);
}

}  // namespace

void sort(const Sort& s) {
  if (s.keep == 0 || count(s.lines.ndim, s.lines.size) == 0) return;
  with_number(s.dtype, [&](auto x) { run<decltype(x)>(s); });
}

}  // namespace MT_ISA
}  // namespace mt
