// grid_threads.cpp -- chooses between lanes and threads for a grid kernel, and keeps the code of its threads
#include "kernels/cpu/jit/grid_threads.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "kernels/cpu/jit/grid_native.h"
#include "kernels/cpu/jit/grid_rows.h"
#include "kernels/cpu/jit/jit_x64.h"

namespace mt {
namespace {

using V = GridValue;
using S = GridStatement;

/// The lanes of a tile in classes: below 2, 8 and 64, for which vectors differ in what they gain.
int lanes_class(const Grid& g) {
  const int64_t lanes = g.tile[0] * g.tile[1] * g.tile[2];
  return lanes < 2 ? 0 : lanes < 8 ? 1 : lanes < 64 ? 2 : 3;
}

/// All that the code depends on besides the program.
RowKey key_of(const Grid& g) {
  RowKey key;
  key.add(char(lanes_class(g)));
  for (const int d : g.axes) {
    key.add(char(d)), key.add(g.tile[d] == 1);
    if (g.program->in_blocks) key.add(char(g.tile[d])), key.add(char(g.tile[d] >> 8));
  }
  for (int k = 0; k < g.program->tensors; ++k) {
    const GridTensor& t = g.tensors[k];
    key.add(char(t.dtype));
    for (int d = 0; d < t.ndim; ++d) key.add(t.stride[d] == 1), key.add(char(size_facts(g, k, d)));
  }
  return key;
}

/// Whether an index grows with the lane; a counter whose end differs between lanes is affine too.
bool grows(const V& v, const std::set<int>& counters) {
  if (v.is != GridClass::affine) return false;
  if (v.kind == V::variable) return !counters.count(v.index);
  return v.kind != V::operation ||
         std::any_of(v.args.begin(), v.args.end(), [&](const V* a) { return grows(*a, counters); });
}
/// Whether lanes read or write this element side by side, so that they share cache lines.
bool is_side_by_side(const Grid& g, const V& access, const std::set<int>& counters) {
  const GridTensor t = of_one_thread(g.tensors[access.index]);
  for (int d = 0; d < t.ndim; ++d)
    if (t.stride[d] == 1 && grows(*access.args[size_t(d)], counters)) return true;
  return false;
}

/// Whether lanes access a column each: an index before the last depends on the lane, the last one is a counter.
bool is_column(const Grid& g, const V& access) {
  const int last = access.args.count - 1;
  if (last < 1 || g.tensors[access.index].stride[last] != 1) return false;
  bool varies = false;
  for (int d = 0; d < last; ++d) varies |= access.args[size_t(d)]->is != GridClass::scalar;
  const V& x = *access.args[size_t(last)];
  return varies && x.is == GridClass::scalar && x.kind >= V::variable;
}

/// Whether one thread after the other is faster than lanes, or rows are machine code. Lanes win in loops that are
/// machine code or access elements side by side, and where functions are called. They lose where a loop stores, reads
/// a row of a matrix in each lane, or only calculates with integers, often a different number of times.
bool prefers_threads(const Grid& g, const ThreadCode& code) {
  const std::string_view setting = jit_setting();
  const bool waits = code.by_block || g.program->shares;
  if (setting == "threads" || (!waits && rows_fit(g))) return true;
  if (setting == "lanes") return false;
  if (code.by_block) return true;
  const bool calls_often = code.calls_often;
  bool loops = false, neighbours = false, stores = false, columns = false, sums = false,
       native = true, reals = false;
  std::set<int> counters;  // that have the same first value in all lanes
  each_statement(g.program->body, 0, [&](const S& s, int) {
    if (s.kind == S::count && s.value->is == GridClass::scalar) counters.insert(s.variable);
  });
  each_statement(g.program->body, 0, [&](const S& s, int depth) {
    const bool inside = depth > 0 || s.is_loop();
    bool nested = false;
    each_statement(s.body, 0, [&](const S& x, int) { nested |= x.is_loop(); });
    loops |= inside, stores |= depth > 0 && s.place;
    sums |= depth > 0 && s.kind == S::atomic_add && s.value->type == GridType::real;
    if (s.is_loop() && !nested) native &= grid_native(*g.program, s, ~uint64_t(0)).code != nullptr;
    values_of(s, [&](const V& v) {
      neighbours |= depth > 0 && v.kind == V::load && is_side_by_side(g, v, counters);
      columns |= depth > 0 && v.kind == V::load && is_column(g, v);
      reals |=
          inside && v.kind == V::operation && GridType::real == (v.op == kConvert ? v.type : v.of);
    });
  });
  const bool gains = loops && native && reals && !stores;  // by vectors
  if (sums) return true;  // in the order of threads, however many lanes there are
  if (lanes_class(g) < (gains ? 1 : calls_often || loops ? 2 : 3)) return true;
  if (calls_often || neighbours) return false;
  return !loops || stores || columns || !native || !reals;
}

ThreadCode compile_threads(const Grid& g, FindLoop* find_loop) {
  ThreadCode code;
  const std::vector<uint8_t> machine = emit_threads(g, find_loop, code);
  if (machine.empty() || !prefers_threads(g, code)) return {};
  size_t bytes = 0;
  code.run = reinterpret_cast<void (*)(ThreadFrame*)>(executable(machine, bytes));
  return code;
}

}  // namespace

const ThreadCode& thread_code(const Grid& g, FindLoop* find_loop) {
  static const ThreadCode none;
  static std::mutex lock;
  static auto* const all = new std::map<std::pair<int64_t, std::string>, ThreadCode>;
  static struct {
    int64_t program;
    RowKey key;
    const ThreadCode* code;
  } last{};
  const RowKey key = key_of(g);
  if (!key.fits()) return none;
  const std::lock_guard guard(lock);
  if (last.program == g.program->number && last.key == key) return *last.code;
  const auto [found, is_new] =
      all->try_emplace({g.program->number, std::string(key.bytes, size_t(key.used))});
  if (is_new) found->second = compile_threads(g, find_loop);
  last = {g.program->number, key, &found->second};
  return found->second;
}

const GridValue* grid_value(const GridProgram& p, int64_t number) {
  const V* found = nullptr;
  each_statement(p.body, 0, [&](const S& s, int) {
    values_of(s, [&](const V& v) {
      if (number-- == 0) found = &v;
    });
  });
  return found;
}

}  // namespace mt
