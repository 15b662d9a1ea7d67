// step_numbers.cpp -- numbers that may be others at each replay: where two recordings of the same calls differ
#include <algorithm>
#include <bit>

#include "engine/compile/replay.h"
#include "engine/compile/verb_fields.h"

namespace mt {
namespace {

struct Place {
  std::byte* at;
  Dtype dtype;  // none: bytes that are no number of a float
  size_t bytes;
  bool rounds = false;  // a float64 that is read as a float32
};
/// What must be the same in two recordings, and the numbers that may differ.
struct Content : AnyField {
  std::vector<int64_t> fixed;
  std::vector<Place> numbers;
  template <class... T> void same(const T&... x) { (fixed.push_back(int64_t(x)), ...); }
  void number(double& x, bool rounds = false) {
    numbers.push_back({reinterpret_cast<std::byte*>(&x), Dtype::f64, sizeof x, rounds});
  }
};

template <class A>
Content content_of(A& a, const StepCall& call, const std::vector<StepBuffer>& memory) {
  Content c;
  if constexpr (kRecords<A>) fields(a, c);
  const Dtype dtype = number_dtype(a);
  for (const BufferUse& u : call.uses) {
    c.same(u.slot - call.argument, u.buffer, u.offset, u.out, u.bytes);
    std::byte* at = nullptr;
    std::memcpy(&at, u.slot, sizeof at);
    if (u.buffer >= 0 && memory[u.buffer].kind == StepBuffer::Kind::outside) c.same(uintptr_t(at));
    if (u.buffer >= 0) continue;
    const bool known = dtype != Dtype::none;
    const size_t one = known ? size_t(item_size(dtype)) : sizeof(double);
    if (u.bytes > one) c.numbers.push_back({at - u.offset, Dtype::none, u.bytes});
    else c.numbers.push_back({at, is_float(dtype) ? dtype : Dtype::none, u.bytes ? u.bytes : one});
  }
  return c;
}
Content content_of(const StepCall& call, const std::vector<StepBuffer>& memory) {
  switch (call.verb) {
#define MT_CONTENT(result, verb, Argument) \
  case Verb::verb: return content_of(*reinterpret_cast<Argument*>(call.argument), call, memory);
    MT_VERBS(MT_CONTENT)
    MT_CPU_VERBS(MT_CONTENT)
    MT_CONTENT(void, map_numbers, MapNumbers)
    MT_CONTENT(void, fill, Copy)
    MT_CONTENT(void, upload, Move)
    MT_CONTENT(void, download, Move)
#undef MT_CONTENT
  }
  return {};
}

bool holds(const Place& p, double x) {
  if (p.rounds) {
    double there = 0;
    std::memcpy(&there, p.at, sizeof there);
    return std::bit_cast<uint32_t>(float(there)) == std::bit_cast<uint32_t>(float(x));
  }
  if (p.dtype == Dtype::f64) return std::memcmp(p.at, &x, sizeof x) == 0;
  const auto narrow = float(x);
  return p.dtype == Dtype::f32 && std::memcmp(p.at, &narrow, sizeof narrow) == 0;
}

}  // namespace

/// Whether integers become floats, as beside numbers that are not whole.
bool StepReplay::mixes_dtypes() const {
  for (const StepCall& c : recorded_) {
    if (c.verb != Verb::copy) continue;
    const Copy& copy = *reinterpret_cast<const Copy*>(c.argument);
    if (is_float(copy.to) && !is_float(copy.from) && copy.from != Dtype::b8) return true;
  }
  return false;
}

/// Whether another recording has as many calls, and the same results and changes.
bool StepReplay::looks_like(const StepReplay& other) const {
  if (recorded_.size() != other.recorded_.size() || ends_ != other.ends_ ||
      draws_ != other.draws_ || outgoing_.size() != other.outgoing_.size() ||
      results_.size() != other.results_.size() || changes_.size() != other.changes_.size())
    return false;
  bool alike = true;
  for (size_t k = 0; k < outgoing_.size(); ++k)
    alike &= outgoing_[k].numbers == other.outgoing_[k].numbers;
  for (size_t k = 0; k < results_.size(); ++k) {
    const Tensor &a = results_[k].tensor, &b = other.results_[k].tensor;
    alike &= a.shape() == b.shape() && a.strides() == b.strides() && a.offset() == b.offset();
  }
  for (size_t k = 0; k < changes_.size(); ++k)
    alike &= changes_[k].now().impl()->storage == other.changes_[k].now().impl()->storage;
  return alike;
}

std::vector<int> StepReplay::find_numbers(const StepReplay& other, const std::vector<double>& mine,
                                          const std::vector<double>& theirs, std::string& why) {
  std::vector<Number> found;
  const auto differs = [&](std::string text) {
    why = std::move(text);
    return std::vector<int>();
  };
  if (!looks_like(other)) return differs("decides what is calculated");
  for (size_t i = 0; i < recorded_.size(); ++i) {
    const StepCall &a = recorded_[i], &b = other.recorded_[i];
    if (a.verb != b.verb || a.device != b.device || a.place != b.place)
      return differs("decides what is calculated");
    const Content x = content_of(a, memory_), y = content_of(b, other.memory_);
    if (x.fixed != y.fixed || x.numbers.size() != y.numbers.size())
      return differs("decides what is calculated");
    for (size_t k = 0; k < x.numbers.size(); ++k) {
      const Place &p = x.numbers[k], &q = y.numbers[k];
      if (p.bytes == q.bytes && std::memcmp(p.at, q.at, p.bytes) == 0) continue;
      int value = -1;
      for (size_t v = 0; v < mine.size(); ++v) {
        if (!holds(p, mine[v]) || !holds(q, theirs[v])) continue;
        if (value >= 0) return differs("is one of two numbers that cannot be told apart");
        value = int(v);
      }
      if (value < 0) return differs("goes into a number that is calculated elsewhere");
      found.push_back({p.at, p.dtype == Dtype::f64, value});
    }
  }
  numbers_ = std::move(found);
  std::vector<int> used;
  for (const Number& n : numbers_)
    if (std::ranges::find(used, n.value) == used.end()) used.push_back(n.value);
  return used;
}

void StepReplay::set_numbers(const std::vector<double>& values) {
  for (const Number& n : numbers_) {
    const double x = values[n.value];
    const auto narrow = float(x);
    const void* const from = n.wide ? static_cast<const void*>(&x) : &narrow;
    const size_t bytes = n.wide ? sizeof x : sizeof narrow;
    if (std::memcmp(n.at, from, bytes) == 0) continue;
    std::memcpy(n.at, from, bytes);
    drop_graphs();
  }
}

}  // namespace mt
