// verb_fields.h -- what verbs' arguments say beside pointers: f.same(fields that fix the work), f.number(a number)
#pragma once
#include "engine/compile/verb_pointers.h"
#include "kernels/table.h"

namespace mt {

template <class... Op> constexpr int mapped_params(int op, op::List<Op...>) {
  constexpr int count[] = {op::count_params(Op::info)...};
  return count[op];
}
template <class F> void numbers(double* x, int n, F& f) {
  for (int k = 0; k < n; ++k) f.number(x[k]);
}
template <class F> void same(const int64_t* x, int n, F& f) {
  for (int k = 0; k < n; ++k) f.same(x[k]);
}

template <class F> void fields(Map& m, F& f) {
  f.same(m.op, m.part, m.dtype, m.plain, m.inputs, m.ndim);
  same(m.size, m.ndim, f);
  for (int k = 0; k <= m.inputs; ++k) same(m.stride[k], m.ndim, f);
  numbers(m.scalar, mapped_params(m.op, op::Mapped{}), f);
}
template <class F> void fields(Copy& c, F& f) {
  f.same(c.to, c.from, c.ndim, c.streams);
  same(c.size, c.ndim, f), same(c.out_stride, c.ndim, f), same(c.in_stride, c.ndim, f);
}
template <class F> void fields(Reduce& r, F& f) {
  f.same(r.op, r.dtype, r.kept, r.reduced);
  same(r.kept_size, r.kept, f), same(r.out_stride, r.kept, f), same(r.kept_stride, r.kept, f);
  same(r.reduced_size, r.reduced, f), same(r.reduced_stride, r.reduced, f);
  numbers(r.param, mapped_params(r.op, op::Reductions{}), f);
}
template <class F> void fields(AlongDim& a, F& f) {
  f.same(a.ndim, a.n, a.out_step, a.in_step);
  same(a.size, a.ndim, f), same(a.out_stride, a.ndim, f), same(a.in_stride, a.ndim, f);
}
template <class F> void fields(Scan& s, F& f) {
  f.same(s.op, s.dtype), fields(s.lines, f);
  numbers(s.param, mapped_params(s.op, op::Scans{}), f);
}
template <class F> void fields(Sort& s, F& f) {
  f.same(s.dtype, s.descending, s.first, s.keep), fields(s.lines, f);
}
template <class F> void fields(Softmax& s, F& f) { f.same(s.part, s.dtype, s.outer, s.n, s.inner); }
template <class F> void fields(Normalize& c, F& f) {
  f.same(c.dtype, c.centred, c.given, c.outer, c.batch, c.groups, c.channels_per_group, c.spatial);
  f.number(c.eps);
}
template <class F> void fields(Cell& c, F& f) {
  f.same(c.kind, c.dtype, c.backward, c.rows, c.hidden);
}
template <class F> void fields(Matmul& m, F& f) {
  f.same(m.dtype, m.m, m.n, m.k, m.a_row, m.a_col, m.b_row, m.b_col, m.c_row, m.c_col, m.batch_dims,
         m.accumulate);
  for (const int64_t* list : {m.batch_size, m.a_batch, m.b_batch, m.c_batch})
    same(list, m.batch_dims, f);
}
template <class F> void fields(Conv& c, F& f) {
  f.same(c.part, c.dtype, c.batch, c.groups, c.inputs, c.outputs);
  for (const int64_t* list : {c.size, c.kernel, c.out, c.stride, c.dilation, c.offset})
    same(list, 2, f);
}
template <class F> void fields(MaxPool& p, F& f) {
  f.same(p.dtype, p.planes);
  for (const int64_t* list : {p.size, p.kernel, p.out, p.stride, p.dilation, p.offset})
    same(list, 2, f);
}
template <class F> void fields(Gather& g, F& f) {
  f.same(g.dtype, g.ndim, g.step, g.extent, g.first, g.back, g.join);
  same(g.size, g.ndim, f), same(g.out_stride, g.ndim, f);
  same(g.in_stride, g.ndim, f), same(g.index_stride, g.ndim, f);
}
template <class F> void fields(RavelIndex& r, F& f) {
  f.same(r.ndim, r.step, r.extent, r.first, r.back, r.add);
  same(r.size, r.ndim, f), same(r.index_stride, r.ndim, f);
}
template <class F> void fields(Mask& m, F& f) { f.same(m.n); }
template <class F> void fields(Compress& c, F& f) { f.same(c.mask.n, c.dtype, c.unpack); }
template <class F> void fields(Search& s, F& f) {
  f.same(s.dtype, s.rows, s.sorted_row, s.sorted_size, s.values, s.first, s.right);
}
template <class F> void fields(Random& r, F& f) { f.same(r.what, r.dtype, r.n, r.low, r.span); }
template <class F> void fields(Run& r, F& f) {
  const Program& p = *r.program;
  f.same(uintptr_t(r.program), r.dtype, r.ndim);
  same(r.size, r.ndim, f);
  for (int k = 0; k < p.outputs + p.inputs; ++k) {
    f.same(r.is_bool[k]);
    same(r.stride[k], r.ndim, f);
  }
  for (int k = 0; r.numbers && k < p.numbers; ++k)
    f.number(const_cast<double&>(r.numbers[k]), r.dtype == Dtype::f32);
}
/// The dtype of elements that one number stands for, of verbs that take such.
inline Dtype number_dtype(const Map& m) { return m.dtype; }
inline Dtype number_dtype(const Copy& c) { return c.from; }
template <class A> Dtype number_dtype(const A&) { return Dtype::none; }

}  // namespace mt
