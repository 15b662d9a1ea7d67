// recurrent.cpp -- recurrent layers: one product for the inputs of all steps, one per step for the
// state, and one pass over the gates; backward ends with one product per weight

#include <algorithm>
#include <numeric>

#include "engine/autograd/function.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/cells.h"
#include "kernels/cpu/libraries/bf16_product.h"

namespace mt {
namespace {

const char* const kName = "recurrent_layer";

enum Input { kX, kWeightX, kWeightH, kBiasX, kBiasH, kH, kC, kProjection, kInputs };
const char* const kInputNames[kInputs] = {"the input", "weight_ih", "weight_hh", "bias_ih",
                                          "bias_hh",   "h",         "c",         "weight_hr"};

/// The rows of a step, and its previous state: in the results from row `previous` on, or if that is
/// -1 in the initial state from row `start` on.
struct StepRows {
  int64_t first, rows, previous, start;
};

struct Layer {
  CellKind kind;
  bool reverse;
  std::vector<int64_t> sizes;  // the number of rows of each step
  Tensor in[kInputs];          // x is [all x in]; it and the first two weights may be bfloat16

  const Tensor& operator[](Input i) const { return in[i]; }
  int64_t all() const { return in[kX].size(0); }
  int64_t gates() const {
    return cells::of_kind(kind, [](auto c) -> int64_t { return decltype(c)::gates; });
  }
  int64_t kept() const {
    return cells::of_kind(kind, [](auto c) -> int64_t { return decltype(c)::kept; });
  }
  bool late() const {
    return cells::of_kind(kind, [](auto c) { return decltype(c)::late > 0; });
  }
  int64_t hidden() const { return in[kWeightH].size(0) / gates(); }
  int64_t state() const { return in[kWeightH].size(1); }

  /// In the order of computation. In reverse, shorter sequences join later, from the initial state.
  std::vector<StepRows> step_rows() const {
    std::vector<StepRows> list;
    const int64_t steps = sizes.size();
    int64_t first = reverse ? all() : 0, last = 0, last_size = 0;
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t n = sizes[reverse ? steps - 1 - i : i];
      if (reverse) first -= n;
      const int64_t known = i == 0 ? 0 : std::min(n, last_size);
      if (known > 0) list.push_back({first, known, last, 0});
      if (n > known) list.push_back({first + known, n - known, -1, known});
      last = first, last_size = n;
      if (!reverse) first += n;
    }
    return list;
  }
};

/// The buffers of a run: the results [all x state], cells [all x hidden], the saved gates, and the
/// hidden values before projections.
struct Steps {
  Tensor out, c, gates, hidden;
};

Tensor rows(const Tensor& x, int64_t first, int64_t n) { return slice(x, 0, first, n); }
Tensor rows(const Tensor& x, const StepRows& s) { return rows(x, s.first, s.rows); }
Tensor previous(const Tensor& all, const Tensor& first, const StepRows& s) {
  return s.previous < 0 ? rows(first, s.start, s.rows) : rows(all, s.previous, s.rows);
}
void repeat_row(const Tensor& out, const Tensor& row) {
  copy_elements(out, expand(row, out.shape()));
}

/// The matrix of the product of each step, [inner x columns]. For a CPU its columns are packed in panels,
/// [columns / 32 x inner x 32], when they are first needed; otherwise its kernel would pack them in every step.
/// The products of a bfloat16 matrix may round the other factor to it.
struct StepMatrix {
  static constexpr int64_t kPanel = 32;
  Tensor given, panels = {}, rest = {};  // rest: the columns after the last panel
  bool halves = given.dtype() == Dtype::bf16 && is_cpu(given.device()),
       pairs = halves && given.size(0) % 2 == 0 && multiplies_pairs();

  void pack(Dtype dtype) {
    const Tensor matrix = pairs ? t(as_pairs(contiguous(t(given)))) : to(given, dtype);
    const int64_t inner = matrix.size(0), columns = matrix.size(1),
                  count = is_cpu(matrix.device()) ? columns / kPanel : 0, packed = count * kPanel;
    if (count > 0)
      panels =
          contiguous(transpose(reshape(slice(matrix, 1, 0, packed), {inner, count, kPanel}), 0, 1));
    if (packed < columns)
      rest = count > 0 ? contiguous(slice(matrix, 1, packed, columns - packed)) : matrix;
  }
  /// out (+)= factor . matrix
  void multiply(const Tensor& out, const Tensor& factor, bool accumulate) {
    const int64_t n = factor.size(0);
    if (halves && !pairs && multiplies_bf16(n, given.size(1), given.size(0), 1))
      return matmul_into(kName, out, to(factor, Dtype::bf16), given, accumulate);
    if (!panels.defined() && !rest.defined()) pack(factor.dtype());
    const Tensor x = pairs ? as_pairs(contiguous(to(factor, Dtype::bf16))) : factor;
    const auto product = [&](const Tensor& to, const Tensor& a, const Tensor& b) {
      if (pairs) matmul_pairs_into(to, a, b, accumulate);
      else matmul_into(kName, to, a, b, accumulate);
    };
    const int64_t count = panels.defined() ? panels.size(0) : 0, packed = count * kPanel;
    if (count > 0) {
      const Tensor parts =
          view_of(out, {count, n, kPanel}, {kPanel, out.stride(0), 1}, out.offset());
      product(parts, expand(unsqueeze(x, 0), {count, n, x.size(1)}), panels);
    }
    if (rest.defined()) product(slice(out, 1, packed, out.size(1) - packed), x, rest);
  }
};

Cell step_of(const Layer& l, const Steps& r, const StepRows& s, bool backward) {
  Cell k{};
  k.kind = l.kind, k.dtype = r.out.dtype(), k.backward = backward;
  k.rows = s.rows, k.hidden = l.hidden();
  k.gates = rows(r.gates, s).data(), k.h = rows(r.hidden, s).data();
  k.h_before = previous(r.out, l[kH], s).data();
  if (l[kC].defined()) k.c = rows(r.c, s).data(), k.c_before = previous(r.c, l[kC], s).data();
  return k;
}

Steps forward(const Layer& l) {
  const Tensor& x = l[kX];
  const auto buffer = [&](int64_t n, int64_t columns) { return empty({n, columns}, l[kH]); };
  const int64_t all = l.all(), hidden = l.hidden(), columns = l.gates() * hidden;
  Steps r;
  r.gates = buffer(all, l.kept() * hidden), r.hidden = buffer(all, hidden);
  r.out = l[kProjection].defined() ? buffer(all, l.state()) : r.hidden;
  if (l[kC].defined()) r.c = buffer(all, hidden);
  const Tensor sums = slice(r.gates, 1, 0, columns);
  StepMatrix weight{t(l[kWeightH])};
  const bool biased = l[kBiasX].defined();
  const Tensor bias = biased && !l.late() ? l[kBiasX] + l[kBiasH] : l[kBiasX];
  matmul_into(kName, sums, x, t(l[kWeightX]), false, bias);
  const Tensor late = l.late() ? buffer(l[kH].size(0), columns) : Tensor();
  for (const StepRows& s : l.step_rows()) {
    check_interrupt();
    const Tensor to = l.late() ? rows(late, 0, s.rows) : rows(sums, s);
    if (l.late() && biased) repeat_row(to, l[kBiasH]);
    weight.multiply(to, previous(r.out, l[kH], s), biased || !l.late());
    Cell k = step_of(l, r, s, false);
    k.state = l.late() ? to.data() : nullptr;
    x.device().cell(k);
    if (l[kProjection].defined())
      matmul_into(kName, rows(r.out, s), rows(r.hidden, s), t(l[kProjection]));
  }
  return r;
}

/// The gradients of the inputs that require one, from those of the results and of the cells.
TensorList backward(const Layer& l, const Steps& r, const Tensor& out_grad, const Tensor& c_grad,
                    const std::vector<bool>& wants) {
  const int64_t hidden = l.hidden();
  const Tensor dh = clone(contiguous(out_grad)),
               dc = c_grad.defined() ? clone(contiguous(c_grad)) : c_grad;
  const Tensor dg = empty(r.gates.shape(), r.gates);
  const Tensor sums = slice(dg, 1, 0, l.gates() * hidden);  // the sums that include the state
  const Tensor state = empty(r.out.shape(), l[kX].dtype(), r.out.device());
  StepMatrix weight{l[kWeightH]};
  TensorList dx(kInputs);
  dx[kH] = zeros_like(l[kH]);
  if (dc.defined()) dx[kC] = zeros_like(l[kC]);
  const std::vector<StepRows> list = l.step_rows();
  for (auto s = list.rbegin(); s != list.rend(); ++s) {
    check_interrupt();
    const Tensor slope =
        l[kProjection].defined() ? matmul(rows(dh, *s), l[kProjection]) : rows(dh, *s);
    const Tensor dh_before = previous(dh, dx[kH], *s), h_before = previous(r.out, l[kH], *s);
    Cell k = step_of(l, r, *s, true);
    k.h_grad = slope.data(), k.gates_grad = rows(dg, *s).data(), k.h_before_grad = dh_before.data();
    if (dc.defined())
      k.c_grad = rows(dc, *s).data(), k.c_before_grad = previous(dc, dx[kC], *s).data();
    dh.device().cell(k);
    weight.multiply(dh_before, rows(sums, *s), true);
    copy_elements(rows(state, *s), h_before);
  }
  const Tensor of_x =
      l.late() ? cat({slice(dg, 1, 0, 2 * hidden), slice(dg, 1, 3 * hidden, hidden)}, 1) : sums;
  const Dtype dtype = l[kX].dtype();  // the factors of products are rounded to it
  const Tensor factor = to(of_x, dtype), late_factor = l.late() ? to(sums, dtype) : factor;
  if (wants[kX]) dx[kX] = matmul(factor, l[kWeightX]);
  if (wants[kWeightX]) dx[kWeightX] = matmul(t(factor), l[kX]);
  if (wants[kWeightH]) dx[kWeightH] = matmul(t(late_factor), state);
  if (wants[kBiasX]) dx[kBiasX] = sum(of_x, {0});
  if (wants[kBiasH]) dx[kBiasH] = wants[kBiasX] && !l.late() ? dx[kBiasX] : sum(sums, {0});
  if (wants[kProjection]) dx[kProjection] = matmul(t(dh), r.hidden);
  return dx;
}

/// The same layer step by step in recorded operations: returns the results and the cells.
TensorList composed(const Layer& l) {
  return cells::of_kind(l.kind, [&](auto kind) {
    using C = decltype(kind);
    const size_t steps = l.sizes.size();
    const int64_t hidden = l.hidden();
    const auto wide = [&](Input i) { return to(l[i], compute_dtype(l[i].dtype())); };
    const Tensor x = linear(wide(kX), wide(kWeightX), l[kBiasX]), weight_h = wide(kWeightH);
    const auto extended = [](const Tensor& now, const Tensor& first, int64_t n) {
      if (!now.defined()) return rows(first, 0, n);
      const int64_t m = now.size(0);
      return n <= m ? rows(now, 0, n) : cat({now, rows(first, m, n - m)}, 0);
    };
    TensorList hs(steps), cs(steps);
    Tensor h, c;
    int64_t first = l.reverse ? l.all() : 0;
    for (size_t i = 0; i < steps; ++i) {
      const size_t at = l.reverse ? steps - 1 - i : i;
      const int64_t n = l.sizes[at];
      if (l.reverse) first -= n;
      h = extended(h, l[kH], n);
      const Tensor late = linear(h, weight_h, l[kBiasH]);
      const Tensor sums = C::late ? rows(x, first, n) : rows(x, first, n) + late;
      cells::Step<Tensor> e;
      for (int k = 0; k < C::gates; ++k) e.g[k] = slice(sums, 1, k * hidden, hidden);
      for (int k = 0; k < C::late; ++k) e.s[k] = slice(late, 1, k * hidden, hidden);
      e.h = h;
      if (C::has_c) e.c = extended(c, l[kC], n);
      C::f(e);
      h = hs[at] = l[kProjection].defined() ? matmul(e.h, t(l[kProjection])) : e.h;
      c = cs[at] = e.c;
      if (!l.reverse) first += n;
    }
    TensorList results{cat(hs, 0)};
    if (C::has_c) results.push_back(cat(cs, 0));
    return results;
  });
}

/// The layer's results, with a node if one of its inputs requires a gradient.
Steps recorded(const Layer& l) {
  Steps r;
  {
    NoGrad off;
    r = forward(l);
  }
  std::vector<bool> wants;
  for (const Tensor& x : l.in) wants.push_back(wants_grad(x));
  if (std::ranges::find(wants, true) == wants.end()) return r;
  const TensorList inputs(l.in, l.in + kInputs);
  TensorList results{r.out}, save = inputs;
  if (r.c.defined()) results.push_back(r.c);
  save.insert(save.end(), {r.out, r.c, r.gates, r.hidden});
  Layer empty = l;
  for (Tensor& x : empty.in) x.reset();
  const auto backward_fn = [=](const TensorList& g) {
    const TensorList saved = saved_tensors();
    const auto layer = [&](const TensorList& in) {
      Layer filled = empty;
      std::copy_n(in.begin(), kInputs, filled.in);
      return filled;
    };
    if (grad_enabled())
      return recorded_gradients([&](const TensorList& in) { return composed(layer(in)); },
                                {saved.begin(), saved.begin() + kInputs}, g);
    const Tensor* const run = &saved[kInputs];
    return backward(layer(saved), {run[0], run[1], run[2], run[3]}, g[0],
                    g.size() > 1 ? g[1] : Tensor(), wants);
  };
  const TensorList y = record_function(kName, inputs, results, {}, save, backward_fn);
  r.out = y[0];
  if (r.c.defined()) r.c = y[1];
  return r;
}

// ---- arguments ----------------------------------------------------------------------------------

/// Input i, if defined, must be a float tensor of this shape, compatible with x.
void check(const Layer& l, Input i, const Shape& shape) {
  check_beside(kName, kInputNames[i], l[i], l[kX], shape);
  if (l[i].defined()) check_float(kName, l[i], fmt::format("{} is", kInputNames[i]).c_str());
}

void check_weights(const Layer& l) {
  for (const Input i : {kWeightX, kWeightH})
    if (l[i].dim() != 2 || l[i].size(0) < 1 || l[i].size(1) < 1 || l[i].size(0) % l.gates() != 0)
      fail("{}: {} is {}; expected ({} gates of equal size x features)", kName, kInputNames[i],
           l[i].shape(), l.gates());
  const int64_t columns = l.gates() * l.hidden();
  check(l, kX, l[kX].shape());
  check(l, kWeightX, {columns, l[kX].size(-1)});
  check(l, kWeightH, {columns, l[kProjection].defined() ? l.state() : l.hidden()});
  check(l, kBiasX, {columns}), check(l, kBiasH, {columns});
  check(l, kProjection, {l.state(), l.hidden()});
  if (l[kBiasX].defined() != l[kBiasH].defined()) fail("{}: give both biases or none", kName);
  const bool has_c = l.kind == CellKind::lstm;
  if (!has_c && (l[kC].defined() || l[kProjection].defined()))
    fail("{}: c and weight_hr belong to mode 'lstm'", kName);
}

/// The number of rows of each step, checked.
std::vector<int64_t> step_sizes(const Tensor& x,
                                const std::optional<std::vector<int64_t>>& batch_sizes) {
  const int dims = batch_sizes ? 2 : 3;
  if (x.dim() != dims)
    fail("{}: the input is {}, expected ({})", kName, x.shape(),
         dims == 3 ? "time x batch x features" : "all steps x features");
  if (!batch_sizes) {
    if (x.size(0) == 0) fail("{}: the input {} has no steps", kName, x.shape());
    return std::vector<int64_t>(x.size(0), x.size(1));
  }
  const std::vector<int64_t>& given = *batch_sizes;
  if (given.empty()) fail("{}: batch_sizes is empty", kName);
  int64_t left = x.size(0);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 1 || (i > 0 && given[i] > given[i - 1]))
      fail("{}: batch size {} is {}; they are at least 1 and never increase", kName,
           int64_t(i) + message_base(), given[i]);
    left -= std::min(given[i], left + 1);
    if (left < 0) break;
  }
  if (left != 0)
    fail("{}: the batch sizes do not add up to the {} rows of the input", kName, x.size(0));
  return given;
}

/// The last row of each sequence in the results, for one direction.
Tensor last_rows(const Layer& l, const Tensor& all) {
  const int64_t n = l.sizes[0];
  if (l.reverse) return rows(all, 0, n);
  if (l.sizes.back() == n) return rows(all, l.all() - n, n);
  std::vector<int64_t> at(n);
  int64_t first = 0;
  for (const int64_t size : l.sizes) {
    std::iota(at.begin(), at.begin() + size, first);
    first += size;
  }
  return index_select(all, 0, to(constants(at), all.device()));
}

}  // namespace

RecurrentStates recurrent_layer(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
                                const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& h,
                                const Tensor& c, const Tensor& weight_hr, CellKind kind,
                                bool reverse,
                                const std::optional<std::vector<int64_t>>& batch_sizes) {
  Layer l{kind, reverse, {}, {x, weight_ih, weight_hh, bias_ih, bias_hh, h, c, weight_hr}};
  l.sizes = step_sizes(x, batch_sizes);
  check_weights(l);
  const int64_t n = l.sizes[0];
  check(l, kH, {n, l.state()}), check(l, kC, {n, l.hidden()});
  Dtype dtype = x.dtype();
  for (const Tensor& t : l.in)
    if (t.defined()) dtype = promote(dtype, t.dtype());
  const auto first_state = [&](int64_t columns) {
    return zeros({n, columns}, compute_dtype(dtype), x.device());
  };
  l.in[kX] = reshape(x, {-1, x.size(-1)});
  for (int i = 0; i < kInputs; ++i) {
    const bool is_factor = dtype == Dtype::bf16 && i <= kWeightH;
    l.in[i] = contiguous(to(l.in[i], is_factor ? dtype : compute_dtype(dtype)));
  }
  if (!h.defined()) l.in[kH] = first_state(l.state());
  if (!c.defined() && kind == CellKind::lstm) l.in[kC] = first_state(l.hidden());
  const Steps r = recorded(l);
  const Shape shape = joined(x.shape().first(x.dim() - 1), {l.state()});
  RecurrentStates states{to(reshape(r.out, shape), dtype), to(last_rows(l, r.out), dtype), {}};
  if (r.c.defined()) states.c = to(last_rows(l, r.c), dtype);
  return states;
}

}  // namespace mt
