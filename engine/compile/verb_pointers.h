// verb_pointers.h -- where the pointers of verbs' arguments are: f(where the pointer lies, whether it is written to)
#pragma once
#include <cstddef>

#include "kernels/device.h"

namespace mt {

template <class T, class F> bool one(T*& pointer, bool out, const F& f) {
  return !pointer || f(reinterpret_cast<std::byte*>(&pointer), out);
}
template <class F> bool pointers(Map& m, const F& f) {
  bool known = true;
  for (int k = 1; k <= m.inputs; ++k) known &= one(m.data[k], false, f);
  return one(m.data[0], true, f) && known;
}
template <class F> bool pointers(Copy& c, const F& f) {
  return one(c.in, false, f) && one(c.out, true, f);
}
template <class F> bool pointers(Reduce& r, const F& f) {
  return one(r.in, false, f) && one(r.out, true, f) && one(r.out2, true, f);
}
template <class F> bool pointers(Scan& s, const F& f) {
  return one(s.in, false, f) && one(s.out, true, f) && one(s.index, true, f);
}
template <class F> bool pointers(Sort& s, const F& f) {
  return one(s.in, false, f) && one(s.out, true, f) && one(s.index, true, f) &&
         one(s.scratch, true, f);
}
template <class F> bool pointers(Softmax& s, const F& f) {
  return one(s.in, false, f) && one(s.grad, false, f) && one(s.out, true, f);
}
template <class F> bool pointers(Normalize& c, const F& f) {
  const bool reads = c.grad || c.given;  // the statistics
  return one(c.x, false, f) && one(c.weight, false, f) && one(c.bias, false, f) &&
         one(c.grad, false, f) && one(c.mean, !reads, f) && one(c.variance, !reads, f) &&
         one(c.rate, !c.grad, f) && one(c.out, true, f) && one(c.weight_grad, true, f) &&
         one(c.bias_grad, true, f);
}
template <class F> bool pointers(Cell& c, const F& f) {
  const bool there = one(c.gates, !c.backward, f) && one(c.state, false, f) &&
                     one(c.h_before, false, f) && one(c.c_before, false, f) &&
                     one(c.h, !c.backward, f) && one(c.c, !c.backward, f);
  return there && one(c.h_grad, false, f) && one(c.c_grad, false, f) &&
         one(c.gates_grad, true, f) && one(c.h_before_grad, true, f) &&
         one(c.c_before_grad, true, f);
}
template <class F> bool pointers(Matmul& m, const F& f) {
  return one(m.a, false, f) && one(m.b, false, f) && (!m.accumulate || one(m.c, false, f)) &&
         one(m.c, true, f);
}
template <class F> bool pointers(Conv& c, const F& f) {
  void** const all[] = {&c.y, &c.x, &c.w};
  const int to = int(c.part);
  bool known = one(c.bias, false, f) && one(c.scratch, true, f);
  for (int k = 0; k < 3; ++k)
    if (k != to) known &= one(*all[k], false, f);
  return one(*all[to], true, f) && known;
}
template <class F> bool pointers(MaxPool& p, const F& f) {
  return one(p.values, !p.backward, f) && one(p.index, !p.backward, f) && one(p.x, p.backward, f);
}
template <class F> bool pointers(Gather& g, const F& f) {
  return one(g.in, false, f) && one(g.index, false, f) && one(g.out, true, f);
}
template <class F> bool pointers(RavelIndex& r, const F& f) {
  return one(r.index, false, f) && one(r.out, true, f);
}
template <class F> bool pointers(Mask& m, const F& f) {
  return one(m.set, false, f) && one(m.before, true, f);
}
template <class F> bool pointers(Compress& c, const F& f) {
  return one(c.mask.set, false, f) && one(c.mask.before, false, f) &&
         one(c.unpack ? c.packed : c.whole, false, f) &&
         one(c.unpack ? c.whole : c.packed, true, f);
}
template <class F> bool pointers(Search& s, const F& f) {
  return one(s.sorted, false, f) && one(s.value, false, f) && one(s.out, true, f);
}
template <class F> bool pointers(Random& r, const F& f) { return one(r.out, true, f); }
template <class F> bool pointers(Run& r, const F& f) {
  const Program& p = *r.program;
  bool known = true;
  for (int k = p.outputs; k < p.outputs + p.inputs; ++k) known &= one(r.data[k], false, f);
  for (int k = 0; k < p.outputs; ++k) known &= one(r.data[k], true, f);
  return known && (!p.by_rows || one(r.scratch, true, f));
}

struct AnyPointer {
  bool operator()(std::byte*, bool) const { return true; }
};
/// Whether calls of the verb with this argument can be recorded.
template <class A> constexpr bool kRecords = requires(A& a) { pointers(a, AnyPointer()); };

}  // namespace mt
