// step_plan.cpp -- a recorded step's memory: offsets of its buffers in one arena, by their lifetimes
//
// The calls are processed in order, as by an allocator: at its first use a buffer gets the smallest
// gap in which it fits, and after its last use it leaves a gap. Elementwise results overwrite
// operands that are dead.
#include <algorithm>
#include <map>

#include "engine/compiler/record/step_calls.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

/// The bytes of a buffer, rounded up as in eager memory: to a CPU's cache line, to a GPU allocator's block.
size_t rounded_bytes(const StepBuffer& b) {
  const size_t line = is_cpu(*b.device) ? 64 : 512;
  return b.bytes == 0 ? line : (b.bytes + line - 1) / line * line;
}
/// With space after large buffers, so that they do not all begin at the same offset in a page: the CPU's loads would
/// wait for stores at a distance of 4 KiB.
size_t reserved_bytes(const StepBuffer& b) {
  return rounded_bytes(b) + (b.bytes >= 4096 && is_cpu(*b.device) ? 5 * 64 : 0);
}

/// The free ranges of an arena: offset and size. The last one has no end.
struct Arena {
  std::map<size_t, size_t> gaps = {{0, SIZE_MAX / 2}};
  size_t top = 0;  // the largest end of an allocation

  /// Best fit.
  size_t allocate(size_t bytes) {
    auto best = std::prev(gaps.end());
    for (auto at = gaps.begin(); at != gaps.end(); ++at)
      if (at->second >= bytes && at->second < best->second) best = at;
    const auto [from, size] = *best;
    gaps.erase(best);
    if (size > bytes) gaps[from + bytes] = size - bytes;
    top = std::max(top, from + bytes);
    return from;
  }
  void free(size_t from, size_t bytes) {
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

/// The operands of an elementwise call, the results first.
struct Elementwise {
  int outputs = 0, operands = 0, ndim = 0;
  void* const* data = nullptr;
  const int64_t (*stride)[kMaxDims] = nullptr;
  int64_t item[kMaxProgramOperands] = {};  // bytes of an element
};
Elementwise elementwise_of(const StepCall& c) {
  if (c.verb == Verb::map || c.verb == Verb::map_numbers) {
    const Map& m = *reinterpret_cast<const Map*>(c.argument);
    Elementwise e{1, m.inputs + 1, m.ndim, m.data, m.stride};
    for (int k = 0; k < e.operands; ++k) e.item[k] = item_size(operand_dtype(m, k));
    return e;
  }
  if (c.verb != Verb::run) return {};
  const Run& r = *reinterpret_cast<const Run*>(c.argument);
  const Program& p = *r.program;
  for (int k = 0; k < p.outputs; ++k)  // such an input is read after other results are written
    if (p.code[p.output[k]].op == kInput) return {};
  Elementwise e{p.outputs, p.outputs + p.inputs, r.ndim, r.data, r.stride};
  for (int k = 0; k < e.operands; ++k) e.item[k] = item_size(r.is_bool[k] ? Dtype::b8 : r.dtype);
  return e;
}

}  // namespace

Dtype operand_dtype(const Map& m, int k) {
  const OpRow* const row = m.op < kOps ? &op_row(m.op) : nullptr;  // null: a reduction's gradient
  const int mask = !row || !row->mask_first ? -1 : m.part == 0 ? 1 : 2;
  if (k == mask || (k == 0 && m.part == 0 && row && row->answers_bool)) return Dtype::b8;
  return m.plain >> k & 1 ? compute_dtype(m.dtype) : m.dtype;
}

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
    // Whether two operands that begin at the same address have the same address for each element.
    const auto same_addresses = [&](int a, int b) {
      return use[a]->offset == use[b]->offset && e.item[a] == e.item[b] &&
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
          if (use[o] && (use[o]->buffer == from || use[o]->buffer == to))
            same &= same_addresses(k, o);
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
  std::vector<bool> is_reused(buffers.size(), false);
  for (StepBuffer& b : buffers)
    if (b.shares >= 0) is_reused[b.shares] = true;
  for (size_t k = 0; k < buffers.size(); ++k) {
    StepBuffer& b = buffers[k];
    if (b.kind != StepBuffer::Kind::inner || b.device != &device || b.first > b.last) continue;
    begin[b.first].push_back(&b);
    if (!is_reused[k]) end[b.last].push_back(&b);
  }
  Arena arena;
  for (size_t i = 0; i < calls; ++i) {
    for (StepBuffer* b : begin[i])
      b->offset = b->shares >= 0 ? buffers[b->shares].offset : arena.allocate(reserved_bytes(*b));
    for (StepBuffer* b : end[i]) arena.free(b->offset, reserved_bytes(*b));
  }
  return arena.top;
}

size_t inner_bytes(const std::vector<StepBuffer>& buffers) {
  size_t sum = 0;
  for (const StepBuffer& b : buffers)
    if (b.kind == StepBuffer::Kind::inner && b.first <= b.last) sum += rounded_bytes(b);
  return sum;
}

}  // namespace mt
