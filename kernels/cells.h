// cells.h -- the recurrent cells: the function of one step after the matrix products, and its gradient
//
// Each formula is a template over T, as in ops.h, and is used by the loops of the CPU and of CUDA
// and with recorded operations (T = mt::Tensor) for gradients of gradients.
#pragma once
#include "kernels/device.h"
#include "kernels/ops.h"

namespace mt::cells {
inline namespace MT_ISA {

/// One element of a step. g: the input of each gate, replaced by what backward needs; s: the products
/// with the state, for cells whose f adds them; h, c: the state before, replaced by the new one.
template <class T> struct Step { T g[4], s[3], h, c; };
/// For backward: g as forward left it; h and c before the step; `next` is c after it. dh and
/// dc are the gradients of the new state, replaced by those of the state before (dh: without the
/// part that goes through the products); dg are the gradients of the gates' sums.
template <class T> struct StepGradient { T g[4], dg[4], h, c, next, dh, dc; };

/// h = f(products with x + products with the state), Elman (1990).
template <class Op> struct Rnn {
  static constexpr int kept = 1, gates = 1, late = 0;
  static constexpr bool has_c = false, passes_h = false;
  template <class T> MT_HD static void f(Step<T>& e) { e.g[0] = e.h = op::Function<Op>{}(e.g[0]); }
  template <class T> MT_HD static void df(StepGradient<T>& e) { e.dg[0] = Op::df(e.dh, e.g[0]); }
};

/// Gates in PyTorch's order: input, forget, cell, output. Hochreiter and Schmidhuber (1997), Gers (2000).
struct Lstm {
  static constexpr int kept = 4, gates = 4, late = 0;
  static constexpr bool has_c = true, passes_h = false;
  template <class T> MT_HD static void f(Step<T>& e) {
    e.g[0] = op::sigmoid(e.g[0]), e.g[1] = op::sigmoid(e.g[1]);
    e.g[2] = op::tanh(e.g[2]), e.g[3] = op::sigmoid(e.g[3]);
    e.c = e.g[1] * e.c + e.g[0] * e.g[2];
    e.h = e.g[3] * op::tanh(e.c);
  }
  template <class T> MT_HD static void df(StepGradient<T>& e) {
    const T y = op::tanh(e.next), dc = e.dc + op::Tanh::df(e.dh * e.g[3], y);
    e.dg[0] = op::Sigmoid::df(dc * e.g[2], e.g[0]);
    e.dg[1] = op::Sigmoid::df(dc * e.c, e.g[1]);
    e.dg[2] = op::Tanh::df(dc * e.g[0], e.g[2]);
    e.dg[3] = op::Sigmoid::df(e.dh * y, e.g[3]);
    e.dc = dc * e.g[1];
  }
};

/// Gates in PyTorch's order: reset, update, new; reset scales the product with the state. The
/// values kept and differentiated are reset, update, the state's part of new, and new: the first
/// three are the sums that include products with the state. Cho (2014).
struct Gru {
  static constexpr int kept = 4, gates = 3, late = 3;
  static constexpr bool has_c = false, passes_h = true;
  template <class T> MT_HD static void f(Step<T>& e) {
    const T r = op::sigmoid(e.g[0] + e.s[0]), z = op::sigmoid(e.g[1] + e.s[1]);
    const T n = op::tanh(e.g[2] + r * e.s[2]);
    e.g[0] = r, e.g[1] = z, e.g[2] = e.s[2], e.g[3] = n;
    e.h = n + z * (e.h - n);
  }
  template <class T> MT_HD static void df(StepGradient<T>& e) {
    const T dn = op::Tanh::df(e.dh * (T(1) - e.g[1]), e.g[3]);
    e.dg[0] = op::Sigmoid::df(dn * e.g[2], e.g[0]);
    e.dg[1] = op::Sigmoid::df(e.dh * (e.h - e.g[3]), e.g[1]);
    e.dg[2] = dn * e.g[0], e.dg[3] = dn;
    e.dh = e.dh * e.g[1];
  }
};

/// Returns f(C()) for the cell type C of that kind.
template <class F> MT_HD auto of_kind(CellKind kind, const F& f) {
  switch (kind) {
    case CellKind::lstm: return f(Lstm());
    case CellKind::gru: return f(Gru());
    case CellKind::rnn_relu: return f(Rnn<op::Relu>());
    default: return f(Rnn<op::Tanh>());
  }
}

/// One row of a step, as the loops of a device process it.
template <class C, class T> struct Row {
  int64_t n;
  T* g;
  const T *s, *h_before, *c_before;
  T *h, *c;
  const T *dh, *dc;
  T *dg, *dh_before, *dc_before;

  MT_HD Row(const Cell& k, int64_t row)
      : n(k.hidden),
        g(at(k.gates, row * C::kept)),
        s(at(k.state, row * C::late)),
        h_before(at(k.h_before, row)),
        c_before(at(k.c_before, row)),
        h(at(k.h, row)),
        c(at(k.c, row)),
        dh(at(k.h_grad, row)),
        dc(at(k.c_grad, row)),
        dg(at(k.gates_grad, row * C::kept)),
        dh_before(at(k.h_before_grad, row)),
        dc_before(at(k.c_before_grad, row)) {}

  /// Computes element j, or with V = simd::Pack a register of elements from j on.
  template <class V = T> MT_HD void forward(int64_t j) const {
    Step<V> e{};
    for (int k = 0; k < C::gates; ++k) e.g[k] = read<V>(g + k * n + j);
    for (int k = 0; k < C::late; ++k) e.s[k] = read<V>(s + k * n + j);
    if constexpr (C::passes_h) e.h = read<V>(h_before + j);
    if constexpr (C::has_c) e.c = read<V>(c_before + j);
    C::f(e);
    for (int k = 0; k < C::kept; ++k) write(g + k * n + j, e.g[k]);
    if constexpr (C::has_c) write(c + j, e.c);
    write(h + j, e.h);
  }
  template <class V = T> MT_HD void backward(int64_t j) const {
    StepGradient<V> e{};
    for (int k = 0; k < C::kept; ++k) e.g[k] = read<V>(g + k * n + j);
    if constexpr (C::passes_h) e.h = read<V>(h_before + j);
    if constexpr (C::has_c)
      e.c = read<V>(c_before + j), e.next = read<V>(c + j), e.dc = read<V>(dc + j);
    e.dh = read<V>(dh + j);
    C::df(e);
    for (int k = 0; k < C::kept; ++k) write(dg + k * n + j, e.dg[k]);
    if constexpr (C::passes_h) write(dh_before + j, read<V>(dh_before + j) + e.dh);
    if constexpr (C::has_c) write(dc_before + j, e.dc);
  }

 private:
  MT_HD T* at(void* p, int64_t row) const { return static_cast<T*>(p) + row * n; }
  MT_HD const T* at(const void* p, int64_t row) const { return static_cast<const T*>(p) + row * n; }
  template <class V> MT_HD static V read(const T* p) {
    if constexpr (math::is_symbolic<V>) return V::load(p);
    else return *p;
  }
  template <class V> MT_HD static void write(T* p, V x) {
    if constexpr (math::is_symbolic<V>) x.store(p);
    else *p = x;
  }
};

}  // namespace MT_ISA
}  // namespace mt::cells
