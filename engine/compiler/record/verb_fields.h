// verb_fields.h -- the pointers in verbs' arguments
//
// fields(argument, f) calls f.in(pointers..) and f.out(pointers..), or f.pointer(p, whether it is
// written to); a null pointer is not used.
#pragma once
#include "engine/compiler/record/step_calls.h"
#include "kernels/table.h"

namespace mt {

/// A visitor that ignores all fields; derived visitors hide the functions that they need.
struct AnyField {
  template <class... T> void in(T*&...) {}
  template <class... T> void out(T*&...) {}
  template <class T> void pointer(T*&, bool) {}
};

void fields(Map& m, auto& f) {
  for (int k = 1; k <= m.inputs; ++k) f.in(m.data[k]);
  f.out(m.data[0]);
}
void fields(MapNumbers& m, auto& f) { fields(static_cast<Map&>(m), f); }
void fields(Move& m, auto& f) { f.in(m.from), f.out(m.to); }
void fields(Copy& c, auto& f) { f.in(c.in), f.out(c.out); }
void fields(Reduce& r, auto& f) { f.in(r.in), f.out(r.out, r.out2); }
void fields(WeightedGather& w, auto& f) {
  f.in(w.at), f.pointer(w.x, w.part == WeightedPart::x);
  f.pointer(w.weight, w.part == WeightedPart::weight),
      f.pointer(w.sums, w.part == WeightedPart::sums);
}
void fields(Fft& t, auto& f) {
  f.in(t.roots, t.twiddles, t.in.data, t.in.factor, t.out.factor), f.out(t.out.data, t.scratch);
}
void fields(Scan& s, auto& f) { f.in(s.in), f.out(s.out, s.index); }
void fields(Sort& s, auto& f) { f.in(s.in), f.out(s.out, s.index, s.scratch); }
void fields(Softmax& s, auto& f) { f.in(s.in, s.grad), f.out(s.out); }
void fields(Normalize& c, auto& f) {
  const bool reads = c.grad || c.given;  // the statistics
  f.in(c.x, c.weight, c.bias, c.grad);
  f.pointer(c.mean, !reads), f.pointer(c.variance, !reads), f.pointer(c.rate, !c.grad);
  f.out(c.out, c.weight_grad, c.bias_grad);
}
void fields(FlashAttention& a, auto& f) {
  f.in(a.q.data, a.k.data, a.v.data, a.grad.data),
      f.out(a.q_grad.data, a.k_grad.data, a.v_grad.data, a.delta);
  f.pointer(a.out.data, !a.backward), f.pointer(a.log_sums, !a.backward);
}
void fields(Cell& c, auto& f) {
  f.pointer(c.gates, !c.backward), f.in(c.state, c.h_before, c.c_before);
  f.pointer(c.h, !c.backward), f.pointer(c.c, !c.backward), f.in(c.h_grad, c.c_grad);
  f.out(c.gates_grad, c.h_before_grad, c.c_before_grad);
}
void fields(Matmul& m, auto& f) {
  f.in(m.a, m.b, m.bias);
  if (m.accumulate) f.in(m.c);
  f.out(m.c);
}
void fields(Conv& c, auto& f) {
  void** const all[] = {&c.y, &c.x, &c.w};
  const int to = int(c.part);
  f.in(c.bias), f.out(c.scratch);
  for (int k = 0; k < 3; ++k)
    if (k != to) f.in(*all[k]);
  f.out(*all[to]);
}
void fields(MaxPool& p, auto& f) {
  f.pointer(p.values, !p.backward), f.pointer(p.index, !p.backward), f.pointer(p.x, p.backward);
}
void fields(Gather& g, auto& f) { f.in(g.in, g.index), f.out(g.out); }
void fields(RavelIndex& r, auto& f) { f.in(r.index), f.out(r.out); }
void fields(Mask& m, auto& f) { f.in(m.set), f.out(m.before); }
void fields(Compress& c, auto& f) {
  f.in(c.mask.set, c.mask.before);
  f.pointer(c.packed, !c.unpack), f.pointer(c.whole, c.unpack);
}
void fields(Search& s, auto& f) { f.in(s.sorted, s.value), f.out(s.out); }
void fields(Random& r, auto& f) { f.out(r.out); }
void fields(Run& r, auto& f) {
  const Program& p = *r.program;
  for (int k = p.outputs; k < p.outputs + p.inputs; ++k) f.in(r.data[k]);
  for (int k = 0; k < p.outputs; ++k) f.out(r.data[k]);
  if (p.by_rows) f.out(r.scratch);
}
/// The size check finds an argument with a new pointer. Add the pointer to fields() above, as a
/// replay would otherwise use old memory; then change the size here.
static_assert(sizeof(Map) == 1000 && sizeof(MapNumbers) == 1008 && sizeof(Move) == 24 &&
                  sizeof(Copy) == 416 && sizeof(Reduce) == 712 && sizeof(WeightedGather) == 88 &&
                  sizeof(Fft) == 224 && sizeof(Scan) == 480 && sizeof(Sort) == 472 &&
                  sizeof(Softmax) == 56 && sizeof(Normalize) == 136 &&
                  sizeof(FlashAttention) == 312 && sizeof(Cell) == 112 && sizeof(Matmul) == 640 &&
                  sizeof(Conv) == 184 && sizeof(MaxPool) == 136 && sizeof(Gather) == 584 &&
                  sizeof(RavelIndex) == 320 && sizeof(Mask) == 24 && sizeof(Compress) == 56 &&
                  sizeof(Search) == 80 && sizeof(Random) == 56 && sizeof(Run) == 5640,
              "name the new pointers of this argument in fields()");

/// Whether calls of the verb with this argument can be recorded.
template <class A> constexpr bool kRecords = requires(A& a, AnyField& f) { fields(a, f); };

}  // namespace mt
