// program_tree.cpp -- tree reductions: a binary function reduces lines, level by level in cache
#include "kernels/cpu/jit/native.h"
#include "kernels/cpu/simd/blocks.h"
#include "kernels/tree.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// Evaluates a program on contiguous numbers.
struct Evaluator {
  const Tree& t;
  const Program* program;
  const Code* code;  // null: it is interpreted

  Evaluator(const Tree& tree, const Program* p) : t(tree), program(p), code(nullptr) {
    const bool large = p && t.outer * t.n * t.inner * p->count >= kNativeWork;
    if (large) code = native_code(*p, t.dtype, 0);
  }
  /// data: its results, followed by its inputs.
  void operator()(char* const* data, int64_t n) const {
    if (code && run_native(*code, reinterpret_cast<void* const*>(data), t.numbers, 0, n) == n)
      return;
    Run r;
    r.program = program, r.dtype = t.dtype, r.numbers = t.numbers, r.ndim = 1, r.size[0] = n;
    for (int k = 0; k < program->outputs + program->inputs; ++k)
      r.data[k] = data[k], r.is_bool[k] = false, r.stride[k][0] = 1;
    run(r);
  }
};

/// Rows of `width` numbers, `pitch` apart; a line has `length` rows, the next line is `step` numbers on.
struct Lines {
  char* data;
  int64_t lines, step, length, pitch, width;
  /// The same as one line, if no pair crosses the boundary of two lines.
  Lines joined() const {
    const bool can = length % 2 == 0 && step == length * pitch;
    return can ? Lines{data, 1, step, lines * length, pitch, width} : *this;
  }
  char* row(int64_t line, int64_t i, int64_t item) const {
    return data + (line * step + i * pitch) * item;
  }
};

/// Copies rows 1, 3, .. of each line to or from a, rows 2, 4, .. to or from b.
template <bool Back, class U> void move_pairs(const Lines& x, U* a, U* b) {
  const int64_t half = x.length / 2;
  for (int64_t l = 0; l < x.lines; ++l, a += half * x.width, b += half * x.width) {
    U* const row = reinterpret_cast<U*>(x.row(l, 0, sizeof(U)));
    if (x.width == 1 && x.pitch == 1) {
      MT_INDEPENDENT
      for (int64_t i = 0; i < half; ++i)
        if constexpr (Back) row[2 * i] = a[i], row[2 * i + 1] = b[i];
        else a[i] = row[2 * i], b[i] = row[2 * i + 1];
      continue;
    }
    for (int64_t i = 0; i < half; ++i) {
      U *const first = row + 2 * i * x.pitch, *const second = first + x.pitch;
      for (int64_t j = i * x.width, k = 0; k < x.width; ++j, ++k)
        if constexpr (Back) first[k] = a[j], second[k] = b[j];
        else a[j] = first[k], b[j] = second[k];
    }
  }
}
template <bool Back> void move_pairs(const Lines& x, char* a, char* b, int64_t item) {
  const auto as = [&](auto* p) {
    using U = decltype(p);
    move_pairs<Back>(x.joined(), reinterpret_cast<U>(a), reinterpret_cast<U>(b));
  };
  if (item == 4) as(static_cast<Four*>(nullptr));
  else if (item == 8) as(static_cast<Eight*>(nullptr));
  else as(static_cast<char*>(nullptr));
}

/// A tile: lines whose rows are all in buffers, and the values of their levels in forward.
struct Tile {
  const Tree& t;
  const Evaluator &pair, &four, &gradient;
  const int64_t item;
  char* free;  // the free part of the buffers
  struct Level {
    char *a, *b, *odd,
        *rest;  // pairs; the row without a partner, and what it was combined with (null: nothing)
  };
  Level level[16] = {};
  int levels = 0;
  char *top = nullptr, *rest = nullptr;  // the results: of pairs, and of the row without a partner

  char* take(int64_t numbers) {
    char* const p = free;
    free += (numbers * item + 63) / 64 * 64;
    return p;
  }
  /// The buffer of a level: kept if backward needs it, otherwise the next level reuses it.
  char* take_level(int64_t numbers, char* before) {
    return before && !t.gradient ? before : take(numbers);
  }
  char* join(char* to, char* a, char* b, int64_t n) {
    char* const data[] = {to, a, b};
    pair(data, n);
    return to;
  }
  /// Computes the gradients of both numbers from the incoming one, into ga and gb.
  void part(char* g, char* a, char* b, char* ga, char* gb, int64_t n) {
    char *const from[] = {g, a, b}, *data[5] = {ga, gb};
    for (int k = 0; k < t.gradient->inputs; ++k) data[2 + k] = from[t.operand[k]];
    gradient(data, n);
  }
  void copy_row(const Lines& x, int64_t i, char* row, bool back) const {
    const size_t bytes = x.width * item;
    if (x.width == 1)
      return back ? move_run(x.row(0, i, item), x.step, row, 1, x.lines, item)
                  : move_run(row, 1, x.row(0, i, item), x.step, x.lines, item);
    for (int64_t l = 0; l < x.lines; ++l, row += bytes)
      back ? __builtin_memcpy(x.row(l, i, item), row, bytes)
           : __builtin_memcpy(row, x.row(l, i, item), bytes);
  }

  /// Computes the result of each line.
  char* up(Lines x) {
    const int64_t n = x.lines * x.width;
    if (x.length == 1) return copy_row(x, 0, top = take(n), false), top;
    while (x.length > 1) {
      Level& v = level[levels++];
      const int64_t half = x.length / 2;
      v = {take_level(n * half, level[0].a), take_level(n * half, level[0].b), nullptr, nullptr};
      move_pairs<false>(x, v.a, v.b, item);
      if (x.length % 2) {
        copy_row(x, x.length - 1, v.odd = take(n), false);
        v.rest = rest;
        rest = rest ? join(take(n), v.odd, rest, n) : v.odd;
      }
      top = join(take_level(n * half, top), v.a, v.b, n * half);
      x = {top, x.lines, half * x.width, half, x.width, x.width};
    }
    return rest ? join(take(n), top, rest, n) : top;
  }
  /// The same for one line with long rows: a row is combined in place as soon as it has a partner,
  /// and the result with the previous one of its level, like the carry of a binary counter.
  char* up_by_rows(const Lines& x) {
    char *done[8] = {}, *room[8] = {}, *const carried = take(x.width);  // by level
    const auto place = [&](int64_t i, int k) {  // of the result of level k that row i completes
      const bool stays = !(i >> (k + 1) & 1);
      if (stays && !room[k]) room[k] = take(x.width);
      return stays ? room[k] : carried;
    };
    for (int64_t i = 0; i < x.length; ++i) {
      char* row = x.row(0, i, item);
      int k = 0;
      if (t.four && i % 4 == 0 && i + 4 <= x.length) {
        char* const data[] = {place(i + 3, 1), row, x.row(0, i + 1, item), x.row(0, i + 2, item),
                              x.row(0, i + 3, item)};
        four(data, x.width);
        row = data[0], i += 3, k = 2;
      }
      for (; i >> k & 1; ++k) row = join(place(i, k), done[k], row, x.width);
      done[k] = row;
    }
    char* row = nullptr;
    for (int k = 0; x.length >> k; ++k)
      if (x.length >> k & 1) row = row ? join(carried, done[k], row, x.width) : done[k];
    return row;
  }
  /// Propagates the gradients of the results to those of x; `to` has the layout of x.
  void down(char* g, const Lines& to) {
    const int64_t n = to.lines * to.width;
    char* of_rest = nullptr;
    if (levels == 0) return copy_row(to, 0, g, true);
    if (rest) {
      char *const ga = take(n), *const gb = take(n);
      part(g, top, rest, ga, gb, n);
      g = ga, of_rest = gb;
    }
    for (int k = levels - 1; k >= 0; --k) {
      const Level& v = level[k];
      const int64_t half = to.length >> (k + 1), length = to.length >> k;
      char *const ga = take(n * half), *const gb = take(n * half);
      part(g, v.a, v.b, ga, gb, n * half);
      const int64_t step = length * to.width;
      const Lines here =
          k == 0 ? to : Lines{take(n * length), to.lines, step, length, to.width, to.width};
      move_pairs<true>(here, ga, gb, item);
      if (v.odd) {
        char* of_odd = of_rest;
        if (v.rest) {
          char* const g_rest = of_rest;
          of_odd = take(n), of_rest = take(n);
          part(g_rest, v.odd, v.rest, of_odd, of_rest, n);
        }
        copy_row(here, length - 1, of_odd, true);
      }
      g = here.data;
    }
  }
};
/// The size of a tile's buffers in numbers: pairs, results and gradients of all levels need at most
/// 5 times its elements, rows without a partner less than 2 times.
constexpr int64_t kTreeBuffers = 8 * kTreeTile;

struct Sweep {
  const Tree& t;
  const int64_t item, results;
  const bool by_rows = !t.gradient && t.inner >= kTreeLongRow;
  const Evaluator pair{t, t.program}, four{t, by_rows ? t.four : nullptr}, gradient{t, t.gradient};

  /// Processes `count` lines of `length` rows in each group, from row `first` of the group on.
  void lines(int64_t first, int64_t count, int64_t length) const {
    int64_t groups = t.outer, step = length, out_step = 1;
    if (count == 1) count = t.outer, groups = 1, step = t.n, out_step = results;
    else if (count * length == t.n) count *= t.outer, groups = 1;
    const int64_t width = smaller(t.inner, by_rows ? 2 * kTreeLongRow : kTreeTile / length);
    const int64_t together =
        width == t.inner && !by_rows ? smaller(count, kTreeTile / (length * width)) : 1;
    const int64_t across = (t.inner + width - 1) / width, tiles = (count + together - 1) / together;
    const int64_t work = t.outer * t.n * t.inner * t.program->count;
    parallel(groups * tiles * across, work > kSpreadWork, [&](int64_t i) {
      const int64_t column = i % across * width, tile = i / across % tiles,
                    group = i / across / tiles;
      const int64_t line = tile * together, row = group * t.n + first + line * step;
      const int64_t result = group * results + first / kTreeLine + line * out_step;
      const Lines x{nullptr, smaller(together, count - line), step * t.inner, length,
                    t.inner, smaller(width, t.inner - column)};
      one_tile(x, (row * t.inner + column) * item, (result * t.inner + column) * item,
               out_step * t.inner);
    });
  }
  __attribute__((noinline)) void one_tile(Lines x, int64_t at, int64_t result,
                                          int64_t out_step) const {
    Tile tile{t,    pair,
              four, gradient,
              item, static_cast<char*>(__builtin_alloca_with_align(kTreeBuffers * item, 512))};
    x.data = static_cast<char*>(const_cast<void*>(t.x)) + at;
    char* y = by_rows ? tile.up_by_rows(x) : tile.up(x);
    Lines out{static_cast<char*>(t.gradient ? const_cast<void*>(t.grad) : t.out) + result,
              x.lines,
              out_step,
              1,
              out_step,
              x.width};
    if (!t.gradient) return tile.copy_row(out, 0, y, true);
    tile.copy_row(out, 0, y, false);
    x.data = static_cast<char*>(t.out) + at;
    tile.down(y, x);
  }
};

}  // namespace

void run_tree(const Tree& t) {
  const int64_t line = tree_line(t.n, t.inner), whole = t.n / line, left = t.n % line;
  const Sweep all{t, item_size(t.dtype), tree_results(t.n, t.inner)};
  if (t.outer * t.n * t.inner == 0) return;
  all.lines(0, whole, line);
  if (left) all.lines(whole * line, 1, left);
}

}  // namespace MT_ISA
}  // namespace mt
