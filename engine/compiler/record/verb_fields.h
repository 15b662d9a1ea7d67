// verb_fields.h -- the pointers in verbs' arguments
//
// fields(argument, f) calls f(pointer, whether it is written to) for each; a null pointer is not used.
#pragma once
#include "engine/compiler/record/step_calls.h"
#include "kernels/table.h"

namespace mt {

void in(auto& f, auto*&... pointer) { (f(pointer, false), ...); }
void out(auto& f, auto*&... pointer) { (f(pointer, true), ...); }

void fields(Map& m, auto& f) {
  for (int k = 1; k <= m.inputs; ++k) in(f, m.data[k]);
  out(f, m.data[0]);
}
void fields(MapNumbers& m, auto& f) { fields(static_cast<Map&>(m), f); }
void fields(Move& m, auto& f) { in(f, m.from), out(f, m.to); }
void fields(Copy& c, auto& f) { in(f, c.in), out(f, c.out); }
void fields(Reduce& r, auto& f) { in(f, r.in), out(f, r.out, r.out2); }
void fields(WeightedGather& w, auto& f) {
  in(f, w.at), f(w.x, w.part == WeightedPart::x);
  f(w.weight, w.part == WeightedPart::weight), f(w.sums, w.part == WeightedPart::sums);
}
void fields(Fft& t, auto& f) {
  in(f, t.roots, t.twiddles, t.in.data, t.in.factor, t.out.factor), out(f, t.out.data, t.scratch);
}
void fields(Scan& s, auto& f) { in(f, s.in), out(f, s.out, s.index); }
void fields(Sort& s, auto& f) { in(f, s.in), out(f, s.out, s.index, s.scratch); }
void fields(Softmax& s, auto& f) { in(f, s.in, s.grad), out(f, s.out); }
void fields(Normalize& c, auto& f) {
  const bool reads = c.grad || c.given;  // the statistics
  in(f, c.x, c.weight, c.bias, c.grad);
  f(c.mean, !reads), f(c.variance, !reads), f(c.rate, !c.grad);
  out(f, c.out, c.weight_grad, c.bias_grad);
}
void fields(FlashAttention& a, auto& f) {
  in(f, a.q.data, a.k.data, a.v.data, a.grad.data),
      out(f, a.q_grad.data, a.k_grad.data, a.v_grad.data, a.delta);
  f(a.out.data, !a.backward), f(a.log_sums, !a.backward);
}
void fields(Cell& c, auto& f) {
  f(c.gates, !c.backward), in(f, c.state, c.h_before, c.c_before);
  f(c.h, !c.backward), f(c.c, !c.backward), in(f, c.h_grad, c.c_grad);
  out(f, c.gates_grad, c.h_before_grad, c.c_before_grad);
}
void fields(Matmul& m, auto& f) {
  in(f, m.a, m.b, m.bias);
  if (m.accumulate) in(f, m.c);
  out(f, m.c);
}
void fields(Conv& c, auto& f) {
  void** const all[] = {&c.y, &c.x, &c.w};
  const int to = int(c.part);
  in(f, c.bias), out(f, c.scratch);
  for (int k = 0; k < 3; ++k)
    if (k != to) in(f, *all[k]);
  out(f, *all[to]);
}
void fields(MaxPool& p, auto& f) {
  f(p.values, !p.backward), f(p.index, !p.backward), f(p.x, p.backward);
}
void fields(Gather& g, auto& f) { in(f, g.in, g.index), out(f, g.out); }
void fields(RavelIndex& r, auto& f) { in(f, r.index), out(f, r.out); }
void fields(Mask& m, auto& f) { in(f, m.set), out(f, m.before); }
void fields(Compress& c, auto& f) {
  in(f, c.mask.set, c.mask.before);
  f(c.packed, !c.unpack), f(c.whole, c.unpack);
}
void fields(Search& s, auto& f) { in(f, s.sorted, s.value), out(f, s.out); }
void fields(Random& r, auto& f) { out(f, r.out); }
void fields(Run& r, auto& f) {
  const Program& p = *r.program;
  for (int k = p.outputs; k < p.outputs + p.inputs; ++k) in(f, r.data[k]);
  for (int k = 0; k < p.outputs; ++k) out(f, r.data[k]);
  if (p.by_rows) out(f, r.scratch);
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

struct AnyField {
  void operator()(auto*&, bool) {}
};
/// Whether calls of the verb with this argument can be recorded.
template <class A> constexpr bool kRecords = requires(A& a, AnyField& f) { fields(a, f); };

}  // namespace mt
