// step_plan.cpp -- a recorded step's memory: offsets of its buffers in one arena, by their lifetimes
//
// The calls are processed in order, as by an allocator: at its first use a buffer gets the smallest
// gap in which it fits, and after its last use it leaves a gap. Elementwise results overwrite
// operands that are dead.
#include <algorithm>
#include <map>

#include "engine/compiler/record/step_calls.h"
#include "engine/core/device.h"

namespace mt {
namespace {

/// Sizes are rounded up as in eager memory: to a CPU's cache line, to a GPU allocator's block.
size_t lines(const StepBuffer& b) {
  const size_t line = is_cpu(*b.device) ? 64 : 512;
  return b.bytes == 0 ? line : (b.bytes + line - 1) / line * line;
}
/// Adds a gap after large buffers, so that they do not all begin at the same offset in a page: the
/// CPU's loads would wait for stores at a distance of 4 KiB.
size_t room(const StepBuffer& b) {
  return lines(b) + (b.bytes >= 4096 && is_cpu(*b.device) ? 5 * 64 : 0);
}

/// The gaps, by their start; the last one has no end.
struct Arena {
  std::map<size_t, size_t> gaps = {{0, SIZE_MAX / 2}};
  size_t top = 0;

  size_t take(size_t bytes) {
    auto best = std::prev(gaps.end());
    for (auto at = gaps.begin(); at != gaps.end(); ++at)
      if (at->second >= bytes && at->second < best->second) best = at;
    const auto [from, size] = *best;
    gaps.erase(best);
    if (size > bytes) gaps[from + bytes] = size - bytes;
    top = std::max(top, from + bytes);
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

/// The operands of an elementwise call: slots and strides, the results first.
struct Elementwise {
  int outputs = 0, operands = 0, ndim = 0;
  void* const* data = nullptr;
  const int64_t (*stride)[kMaxDims] = nullptr;
};
Elementwise elementwise_of(const StepCall& c) {
  if (c.verb == Verb::map || c.verb == Verb::map_numbers) {
    const Map& m = *reinterpret_cast<const Map*>(c.argument);
    return {1, m.inputs + 1, m.ndim, m.data, m.stride};
  }
  if (c.verb != Verb::run) return {};
  const Run& r = *reinterpret_cast<const Run*>(c.argument);
  const Program& p = *r.program;
  for (int k = 0; k < p.outputs; ++k)  // it is copied after other results are written
    if (p.code[p.output[k]].op == kInput) return {};
  return {p.outputs, p.outputs + p.inputs, r.ndim, r.data, r.stride};
}

}  // namespace

void drop_dead_calls(std::vector<StepCall>& calls, const std::vector<StepBuffer>& buffers,
                     bool indices_checked) {
  std::vector<bool> live(buffers.size());
  for (size_t k = 0; k < buffers.size(); ++k)
    live[k] = buffers[k].kind != StepBuffer::Kind::inner || buffers[k].kept;
  std::vector<StepCall> needed;
  for (size_t i = calls.size(); i-- > 0;) {
    const auto writes_live = [&](const BufferUse& u) {
      return u.out && (u.buffer < 0 || live[u.buffer]);
    };
    StepCall& c = calls[i];
    const bool may_fail =
        c.verb == Verb::gather || c.verb == Verb::scatter || c.verb == Verb::ravel_index;
    if ((indices_checked || !may_fail) && std::ranges::none_of(c.uses, writes_live)) continue;
    for (const BufferUse& u : c.uses)
      if (u.buffer >= 0 && !u.out) live[u.buffer] = true;
    needed.push_back(std::move(c));
  }
  std::ranges::reverse(needed);
  calls = std::move(needed);
}

void set_lifetimes(const std::vector<StepCall>& calls, std::vector<StepBuffer>& buffers) {
  for (size_t i = 0; i < calls.size(); ++i)
    for (const BufferUse& u : calls[i].uses)
      if (u.buffer >= 0) {
        StepBuffer& b = buffers[u.buffer];
        b.first = std::min(b.first, int(i)), b.last = std::max(b.last, int(i));
      }
}

void share_in_place(const std::vector<StepCall>& calls, std::vector<StepBuffer>& buffers) {
  const auto is_free = [&](int b, int at) {
    return b >= 0 && buffers[b].kind == StepBuffer::Kind::inner &&
           (at < 0 || buffers[b].last == at);
  };
  for (int i = 0; i < int(calls.size()); ++i) {
    const Elementwise e = elementwise_of(calls[i]);
    std::vector<const BufferUse*> use(e.operands, nullptr);
    for (const BufferUse& u : calls[i].uses)
      for (int k = 0; k < e.operands; ++k)
        if (u.slot == reinterpret_cast<const std::byte*>(&e.data[k])) use[k] = &u;
    const auto alike = [&](int a, int b) {
      return use[a]->offset == use[b]->offset &&
             std::memcmp(e.stride[a], e.stride[b], sizeof(int64_t) * e.ndim) == 0;
    };
    std::vector<int> taken;
    for (int k = 0; k < e.outputs; ++k) {
      const int to = use[k] ? use[k]->buffer : -1;
      if (!is_free(to, -1) || buffers[to].first != i) continue;
      for (int j = e.outputs; j < e.operands; ++j) {
        const int from = use[j] ? use[j]->buffer : -1;
        if (!is_free(from, i) || from == to || buffers[from].first >= i ||
            buffers[from].bytes != buffers[to].bytes || buffers[from].device != buffers[to].device)
          continue;
        bool same = std::ranges::find(taken, from) == taken.end();
        for (int o = 0; o < e.operands; ++o)
          if (use[o] && (use[o]->buffer == from || use[o]->buffer == to)) same &= alike(k, o);
        if (!same) continue;
        buffers[to].shares = from;
        taken.push_back(from);
        break;
      }
    }
  }
}

size_t plan_memory(std::vector<StepBuffer>& buffers, size_t calls, const Device& device) {
  std::vector<std::vector<StepBuffer*>> begin(calls), end(calls);
  std::vector<bool> goes_on(buffers.size(), false);
  for (StepBuffer& b : buffers)
    if (b.shares >= 0) goes_on[b.shares] = true;
  for (size_t k = 0; k < buffers.size(); ++k) {
    StepBuffer& b = buffers[k];
    if (b.kind != StepBuffer::Kind::inner || b.device != &device || b.first > b.last) continue;
    begin[b.first].push_back(&b);
    if (!goes_on[k]) end[b.last].push_back(&b);
  }
  Arena arena;
  for (size_t i = 0; i < calls; ++i) {
    for (StepBuffer* b : begin[i])
      b->offset = b->shares >= 0 ? buffers[b->shares].offset : arena.take(room(*b));
    for (StepBuffer* b : end[i]) arena.give(b->offset, room(*b));
  }
  return arena.top;
}

size_t inner_bytes(const std::vector<StepBuffer>& buffers) {
  size_t sum = 0;
  for (const StepBuffer& b : buffers)
    if (b.kind == StepBuffer::Kind::inner && b.first <= b.last) sum += lines(b);
  return sum;
}

}  // namespace mt
