// step_plan.cpp -- a recorded step's memory: places for its buffers in one arena, by their lifetimes
//
// The calls are walked in order, as an allocator would see them: at its first use a buffer gets the
// smallest gap that holds it, after its last use it leaves one.
#include <map>

#include "engine/compile/step_calls.h"

namespace mt {
namespace {

constexpr size_t kLine = 64;
size_t lines(size_t bytes) { return bytes == 0 ? kLine : (bytes + kLine - 1) / kLine * kLine; }

/// Gaps below `top`, by where they begin.
struct Arena {
  std::map<size_t, size_t> gaps;
  size_t top = 0;

  size_t take(size_t bytes) {
    auto best = gaps.end();
    for (auto at = gaps.begin(); at != gaps.end(); ++at)
      if (at->second >= bytes && (best == gaps.end() || at->second < best->second)) best = at;
    if (best == gaps.end()) {
      const auto last = gaps.empty() ? gaps.end() : std::prev(gaps.end());
      if (last == gaps.end() || last->first + last->second != top) return top += bytes, top - bytes;
      const size_t from = last->first;  // the gap at the end grows
      gaps.erase(last);
      top = from + bytes;
      return from;
    }
    const auto [from, size] = *best;
    gaps.erase(best);
    if (size > bytes) gaps[from + bytes] = size - bytes;
    return from;
  }
  void give(size_t from, size_t bytes) {
    auto next = gaps.lower_bound(from);
    if (next != gaps.end() && next->first == from + bytes) {
      bytes += next->second;
      next = gaps.erase(next);
    }
    if (next != gaps.begin())
      if (const auto before = std::prev(next); before->first + before->second == from) {
        before->second += bytes;
        return;
      }
    gaps[from] = bytes;
  }
};

}  // namespace

size_t plan_memory(std::vector<StepBuffer>& buffers, size_t calls) {
  std::vector<std::vector<StepBuffer*>> begin(calls), end(calls);
  for (StepBuffer& b : buffers) {
    if (b.kind != StepBuffer::Kind::inner || b.first > b.last) continue;
    begin[size_t(b.first)].push_back(&b);
    end[size_t(b.last)].push_back(&b);
  }
  Arena arena;
  for (size_t i = 0; i < calls; ++i) {
    for (StepBuffer* b : begin[i]) b->offset = arena.take(lines(b->bytes));
    for (StepBuffer* b : end[i]) arena.give(b->offset, lines(b->bytes));
  }
  return arena.top;
}

size_t inner_bytes(const std::vector<StepBuffer>& buffers) {
  size_t sum = 0;
  for (const StepBuffer& b : buffers)
    if (b.kind == StepBuffer::Kind::inner && b.first <= b.last) sum += lines(b.bytes);
  return sum;
}

}  // namespace mt
