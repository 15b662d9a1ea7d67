// verb_fields.h -- what verbs' arguments consist of: pointers, what fixes the work, numbers that may be others
//
// fields(argument, f) calls f.in(pointers..) and f.out(pointers..), or f.pointer(p, whether it is written to),
// where a null pointer is none; f.same(fields that fix the work..) and f.number(a number).
#pragma once
#include "engine/compile/step_calls.h"
#include "kernels/table.h"

namespace mt {

/// A visitor that looks at nothing; others hide what they look at.
struct AnyField {
  template <class... T> void in(T*&...) {}
  template <class... T> void out(T*&...) {}
  template <class T> void pointer(T*&, bool) {}
  template <class... T> void same(const T&...) {}
  void number(double&, bool = false) {}
};

template <class... Op> constexpr int mapped_params(int op, op::List<Op...>) {
  constexpr int count[] = {op::count_params(Op::info)...};
  return count[op];
}
void numbers(double* x, int n, auto& f) {
  for (int k = 0; k < n; ++k) f.number(x[k]);
}
/// Lists of n numbers.
template <class F, class... X> void same(F& f, int n, const X&... lists) {
  for (const int64_t* x : {static_cast<const int64_t*>(lists)...})
    for (int k = 0; k < n; ++k) f.same(x[k]);
}

void fields(Map& m, auto& f) {
  for (int k = 1; k <= m.inputs; ++k) f.in(m.data[k]);
  f.out(m.data[0]);
  f.same(m.op, m.part, m.dtype, m.plain, m.inputs, m.ndim);
  same(f, m.ndim, m.size);
  for (int k = 0; k <= m.inputs; ++k) same(f, m.ndim, m.stride[k]);
  numbers(m.scalar, mapped_params(m.op, op::Mapped{}), f);
}
void fields(MapNumbers& m, auto& f) { fields(static_cast<Map&>(m), f), f.same(m.numbers); }
void fields(Move& m, auto& f) { f.in(m.from), f.out(m.to), f.same(m.bytes); }
void fields(Copy& c, auto& f) {
  f.in(c.in), f.out(c.out);
  f.same(c.to, c.from, c.ndim, c.streams);
  same(f, c.ndim, c.size, c.out_stride, c.in_stride);
}
void fields(Reduce& r, auto& f) {
  f.in(r.in), f.out(r.out, r.out2);
  f.same(r.op, r.dtype, r.kept, r.reduced);
  same(f, r.kept, r.kept_size, r.out_stride, r.kept_stride);
  same(f, r.reduced, r.reduced_size, r.reduced_stride);
  numbers(r.param, mapped_params(r.op, op::Reductions{}), f);
}
void fields(WeightedGather& w, auto& f) {
  f.in(w.at), f.pointer(w.x, w.part == WeightedPart::x);
  f.pointer(w.weight, w.part == WeightedPart::weight),
      f.pointer(w.sums, w.part == WeightedPart::sums);
  f.same(w.part, w.dtype, w.batch, w.channels, w.size, w.inner, w.taps, w.places);
}
void fields(AlongDim& a, auto& f) {
  f.same(a.ndim, a.n, a.out_step, a.in_step);
  same(f, a.ndim, a.size, a.out_stride, a.in_stride);
}
void fields(Scan& s, auto& f) {
  f.in(s.in), f.out(s.out, s.index);
  f.same(s.op, s.dtype), fields(s.lines, f);
  numbers(s.param, mapped_params(s.op, op::Scans{}), f);
}
void fields(Sort& s, auto& f) {
  f.in(s.in), f.out(s.out, s.index, s.scratch);
  f.same(s.dtype, s.descending, s.first, s.keep), fields(s.lines, f);
}
void fields(Softmax& s, auto& f) {
  f.in(s.in, s.grad), f.out(s.out);
  f.same(s.part, s.dtype, s.outer, s.n, s.inner);
}
void fields(Normalize& c, auto& f) {
  const bool reads = c.grad || c.given;  // the statistics
  f.in(c.x, c.weight, c.bias, c.grad);
  f.pointer(c.mean, !reads), f.pointer(c.variance, !reads), f.pointer(c.rate, !c.grad);
  f.out(c.out, c.weight_grad, c.bias_grad);
  f.same(c.dtype, c.centred, c.given, c.outer, c.batch, c.groups, c.channels_per_group, c.spatial);
  f.number(c.eps);
}
void fields(Cell& c, auto& f) {
  f.pointer(c.gates, !c.backward), f.in(c.state, c.h_before, c.c_before);
  f.pointer(c.h, !c.backward), f.pointer(c.c, !c.backward), f.in(c.h_grad, c.c_grad);
  f.out(c.gates_grad, c.h_before_grad, c.c_before_grad);
  f.same(c.kind, c.dtype, c.backward, c.rows, c.hidden);
}
void fields(Matmul& m, auto& f) {
  f.in(m.a, m.b);
  if (m.accumulate) f.in(m.c);
  f.out(m.c);
  f.same(m.dtype, m.m, m.n, m.k, m.a_row, m.a_col, m.b_row, m.b_col, m.c_row, m.c_col, m.batch_dims,
         m.accumulate);
  same(f, m.batch_dims, m.batch_size, m.a_batch, m.b_batch, m.c_batch);
}
void fields(Conv& c, auto& f) {
  void** const all[] = {&c.y, &c.x, &c.w};
  const int to = int(c.part);
  f.in(c.bias), f.out(c.scratch);
  for (int k = 0; k < 3; ++k)
    if (k != to) f.in(*all[k]);
  f.out(*all[to]);
  f.same(c.part, c.dtype, c.batch, c.groups, c.inputs, c.outputs);
  same(f, 2, c.size, c.kernel, c.out, c.stride, c.dilation, c.offset);
}
void fields(MaxPool& p, auto& f) {
  f.pointer(p.values, !p.backward), f.pointer(p.index, !p.backward), f.pointer(p.x, p.backward);
  f.same(p.dtype, p.planes);
  same(f, 2, p.size, p.kernel, p.out, p.stride, p.dilation, p.offset);
}
void fields(Gather& g, auto& f) {
  f.in(g.in, g.index), f.out(g.out);
  f.same(g.dtype, g.ndim, g.step, g.extent, g.first, g.back, g.join);
  same(f, g.ndim, g.size, g.out_stride, g.in_stride, g.index_stride);
}
void fields(RavelIndex& r, auto& f) {
  f.in(r.index), f.out(r.out);
  f.same(r.ndim, r.step, r.extent, r.first, r.back, r.add);
  same(f, r.ndim, r.size, r.index_stride);
}
void fields(Mask& m, auto& f) { f.in(m.set), f.out(m.before), f.same(m.n); }
void fields(Compress& c, auto& f) {
  f.in(c.mask.set, c.mask.before);
  f.pointer(c.packed, !c.unpack), f.pointer(c.whole, c.unpack);
  f.same(c.mask.n, c.dtype, c.unpack);
}
void fields(Search& s, auto& f) {
  f.in(s.sorted, s.value), f.out(s.out);
  f.same(s.dtype, s.rows, s.sorted_row, s.sorted_size, s.values, s.first, s.right);
}
void fields(Random& r, auto& f) { f.out(r.out), f.same(r.what, r.dtype, r.n, r.low, r.span); }
/// The numbers of what runs a program.
void program_numbers(auto& a, auto& f) {
  for (int k = 0; a.numbers && k < a.program->numbers; ++k)
    f.number(const_cast<double&>(a.numbers[k]), wide(a.dtype) == Dtype::f32);
}
void fields(Run& r, auto& f) {
  const Program& p = *r.program;
  for (int k = p.outputs; k < p.outputs + p.inputs; ++k) f.in(r.data[k]);
  for (int k = 0; k < p.outputs; ++k) f.out(r.data[k]);
  if (p.by_rows) f.out(r.scratch);
  f.same(uintptr_t(r.program), r.dtype, r.ndim);
  same(f, r.ndim, r.size);
  for (int k = 0; k < p.outputs + p.inputs; ++k) {
    f.same(r.is_bool[k]);
    same(f, r.ndim, r.stride[k]);
  }
  program_numbers(r, f);
}
/// Whether calls of the verb with this argument can be recorded.
template <class A> constexpr bool kRecords = requires(A& a, AnyField& f) { fields(a, f); };

/// The dtype of elements that one number stands for, of verbs that take such.
inline Dtype number_dtype(const Map& m) { return m.dtype; }
/// Beside 16-bit floats it is float32 for some operations.
inline Dtype number_dtype(const MapNumbers& m) { return is_half(m.dtype) ? Dtype::none : m.dtype; }
inline Dtype number_dtype(const Copy& c) { return c.from; }
Dtype number_dtype(const auto&) { return Dtype::none; }

}  // namespace mt
