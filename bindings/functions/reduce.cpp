// reduce.cpp -- reductions, moments, norms and scans
#include <cmath>
#include <deque>

#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"

namespace mt::lua {
namespace {

/// x converted to a dtype, or unchanged.
Tensor in_dtype(Tensor x, Dtype dtype) {
  if (dtype != Dtype::none) x = to(x, dtype);
  return x;
}

/// mean and nanmean, with a dtype for the computation and the result.
template <Tensor (*reduce)(const Tensor&, const Shape&, bool)>
Tensor reduce_as(const Tensor& x, const Dims& dims, bool keepdim, Dtype dtype) {
  return in_dtype(reduce(in_dtype(x, dtype), dims, keepdim), dtype);
}

// ---- the reductions and scans of kernels/ -------------------------------------------------------

/// The parameters of a reduction or scan, from argument i on.
struct Params {
  double value[op::kMaxParams] = {};
  Params(const Args& a, int i, const op::ReduceInfo& info, int count) {
    for (int k = 0; k < count; ++k) value[k] = a.number(i + k, info.params[k].value);
  }
};

/// Reduces all elements, or dimensions. Returns positions where defined; predicates of the whole
/// tensor return a Lua boolean; sums and products take a dtype for the computation.
template <class Op> int reduce_body(Args& a) {
  const bool keepdim = a.boolean(3);
  if constexpr (Op::needs_index) {
    std::optional<int64_t> dim;
    if (a.given(2)) dim = a.position(2);
    if (dim) hint_single(Op::info.name, a.tensor(1), *dim, 1);
    return push_positions(a, reduce(Op{}, a.tensor(1), dim, keepdim));
  } else {
    const Shape dims = a.dims(2);
    constexpr int count = op::count_params(Op::info);
    const Params params(a, 4, Op::info, count);
    const auto run = [&](const Tensor& x) {
      return reduce(op::reduction_id<Op>, x, dims, keepdim, params.value);
    };
    if constexpr (Op::info.result == op::Result::wide) {
      const Dtype dtype = a.dtype(4 + count);
      return a.push(in_dtype(run(in_dtype(a.tensor(1), dtype)), dtype));
    }
    const Tensor y = run(a.tensor(1));
    if constexpr (Op::info.result == op::Result::boolean)
      if (!a.given(2) && !a.out()) {
        check_may_read();
        return a.push(y.item() != 0);
      }
    return a.push(y);
  }
}

template <class Op> int scan_body(Args& a) {
  const int64_t dim = a.position(2);
  constexpr int count = op::count_params(Op::info);
  const Dtype dtype = Op::info.result == op::Result::wide ? a.dtype(3 + count) : Dtype::none;
  const Params params(a, 3, Op::info, count);
  ValuesIndices p = scan(op::scan_id<Op>, in_dtype(a.tensor(1), dtype), dim, params.value);
  if constexpr (Op::needs_index) return push_result(a, std::move(p));
  else return push_or_write(a, in_dtype(p.values, dtype));
}

std::string params_text(const op::ReduceInfo& info) {
  std::string s;
  for (const op::Param& p : info.params)
    if (p.name)
      s += p.required ? fmt::format(", {}: number", p.name)
                      : fmt::format(", {}={}", p.name, p.value);
  return s + (info.result == op::Result::wide ? ", dtype=nil" : "");
}

template <class Op> void add_reduction(std::deque<OwnedEntry>& all) {
  if constexpr (Op::info.doc != nullptr)
    all.emplace_back(fmt::format("{}(x, {}=nil, keepdim=false{}, {{out=}})", Op::info.name,
                                 Op::needs_index ? "dim" : "[dim]", params_text(Op::info)),
                     Op::info.doc, Body(reduce_body<Op>));
}
template <class Op> void add_scan(std::deque<OwnedEntry>& all) {
  Body body(scan_body<Op>, nullptr, 0, Op::needs_index ? "tensor, tensor" : "tensor");
  if (Op::info.result == op::Result::wide) body = body | kInPlaceToo;
  all.emplace_back(fmt::format("{}(x, dim{}{})", Op::info.name, params_text(Op::info),
                               Op::needs_index ? "" : ", {out=}"),
                   Op::info.doc, body);
}
const std::deque<OwnedEntry>& generated() {
  static const std::deque<OwnedEntry>* const list = [] {
    auto* all = new std::deque<OwnedEntry>;
    op::for_each(op::Reductions{}, [&](auto op) { add_reduction<decltype(op)>(*all); });
    op::for_each(op::Scans{}, [&](auto op) { add_scan<decltype(op)>(*all); });
    return all;
  }();
  return *list;
}

void check_not_empty(const char* name, const Tensor& x) {
  if (x.numel() == 0) fail("{}: {} is empty, so it has no {}", name, to_string(x.shape()), name);
}

/// max and min: a tensor for all elements; values and positions along a dimension; elementwise for
/// two tensors.
template <class Op, class Reduction, ValuesIndices (*along)(const Tensor&, int64_t, bool)>
int max_or_min_body(Args& a) {
  const Tensor& x = a.tensor(1);
  if (!a.given(2)) {
    check_not_empty(a.called().c_str(), x);
    return a.push(reduce(Reduction{}, x, Shape{}, false));
  }
  if (const Tensor* y = tensor_at(a.L, 2)) {
    const Tensor* inputs[] = {&x, y};
    return a.push(elementwise(op::id<Op>, inputs));
  }
  return push_result(a, along(x, a.position(2), a.boolean(3)));
}

std::pair<Tensor, Tensor> smallest_and_largest(const char* name, const Tensor& x,
                                               std::optional<Dim> dim, bool keepdim) {
  const Shape dims = dim ? Shape{*dim} : Shape{};
  if (!dim) check_not_empty(name, x);
  return {amin(x, dims, keepdim), amax(x, dims, keepdim)};
}

/// The correction: argument 4, or 1 or 0 from argument 5, `unbiased`.
double correction(const Args& a) {
  if (!a.given(5)) return a.number(4);
  if (a.given(4)) fail("{}: give correction or unbiased, not both", a.called());
  return a.boolean(5);
}
template <Tensor (*moment)(const Tensor&, const Shape&, double, bool)> int std_var(Args& a) {
  return a.push(moment(a.tensor(1), a.dims(2), correction(a), a.boolean(3)));
}
template <bool Root> int std_var_mean(Args& a) {
  const VarMean m = var_mean(a.tensor(1), a.dims(2), correction(a), a.boolean(3));
  return a.push(Root ? root_of_variance(m.variance) : m.variance, m.mean);
}

int norm_body(Args& a) {
  double p = 2;
  if (lua_type(a.L, 2) == LUA_TSTRING) {
    const std::string s = a.text(2);
    if (s == "inf") p = INFINITY;
    else if (s == "-inf") p = -INFINITY;
    else if (s != "fro")
      fail("norm: p is '{}'; use a number, math.huge or 'fro' (matrix norms are in mt.linalg)", s);
  } else if (a.given(2)) {
    p = a.number(2);
  }
  const Shape dims = a.dims(3);
  const bool keepdim = a.boolean(4);
  return a.push(norm(in_dtype(a.tensor(1), a.dtype(5)), p, dims, keepdim));
}

int diff_body(Args& a) {
  const Tensor& x = a.tensor(1);
  const int64_t n = a.integer(2), dim = a.position(3);
  if (x.dim() == 0) fail("diff: a 0-d tensor has no neighbours");
  if (n <= 0) return a.push(diff(x, n, dim));
  TensorList parts;
  const int d = wrap_dim("diff", dim, x.dim());
  const auto add_end = [&](int i, const char* option) {
    const Tensor& end = a.tensor(i);
    bool fits = end.dim() == x.dim();
    for (int k = 0; fits && k < x.dim(); ++k) fits = k == d || end.size(k) == x.size(k);
    if (!fits)
      fail("diff: x is {}, {} {}; they may differ in the size of dimension {} only",
           to_string(x.shape()), option, to_string(end.shape()), d + 1);
    parts.push_back(end);
  };
  if (a.given(4)) add_end(4, "prepend");
  parts.push_back(x);
  if (a.given(5)) add_end(5, "append");
  return a.push(diff(parts.size() > 1 ? cat(parts, dim) : x, n, dim));
}

int histogram_body(Args& a) {
  const Tensor weight = a.tensor(4);
  const bool density = a.boolean(5);
  Histogram h;
  if (const Tensor* edges = tensor_at(a.L, 2)) {
    if (a.given(3)) fail("histogram: a range is for a number of bins, not for edges");
    h = histogram(a.tensor(1), *edges, weight, density);
  } else {
    double range[2];
    if (a.given(3)) {
      a.table(3);
      if (lua_objlen(a.L, 3) != 2) a.wrong(3, "{min, max}");
      for (int k = 0; k < 2; ++k) {
        lua_rawgeti(a.L, 3, k + 1);
        if (lua_type(a.L, -1) != LUA_TNUMBER) a.wrong(3, "{min, max}");
        range[k] = lua_tonumber(a.L, -1);
        lua_pop(a.L, 1);
      }
    }
    h = histogram(a.tensor(1), a.integer(2), a.given(3) ? range : nullptr, weight, density);
  }
  return a.push(h.counts, h.edges);
}

const Entry kReduceMethods[] = {
    {"mean(x, [dim]=nil, keepdim=false, dtype=nil, {out=})",
     "The mean of all elements, or along dimensions; NaN if there are none.",
     bind<reduce_as<mean>>},
    {"aminmax(x, dim=nil, keepdim=false)", "The smallest and the largest element: two tensors.",
     bind<smallest_and_largest>},
    {"max(x, dim=nil, keepdim=false, {out=})",
     "The largest element; with dim values and positions; with a tensor maximum(x, y).",
     Body(max_or_min_body<op::Maximum, op::Amax, max_along>)},
    {"min(x, dim=nil, keepdim=false, {out=})",
     "The smallest element; with dim values and positions; with a tensor minimum(x, y).",
     Body(max_or_min_body<op::Minimum, op::Amin, min_along>)},
    {"nanmean(x, [dim]=nil, keepdim=false, dtype=nil, {out=})",
     "The mean of the elements that are not NaN.", bind<reduce_as<nanmean>>},
    {"var(x, [dim]=nil, keepdim=false, correction=1, unbiased=nil, {out=})", op::Var::info.doc,
     Body(std_var<var>)},
    {"std(x, [dim]=nil, keepdim=false, correction=1, unbiased=nil, {out=})",
     "The standard deviation, the root of var; where it is 0 its gradient is 0.",
     Body(std_var<standard_deviation>)},
    {"var_mean(x, [dim]=nil, keepdim=false, correction=1, unbiased=nil)",
     "The variance and the mean: two tensors.", std_var_mean<false>},
    {"std_mean(x, [dim]=nil, keepdim=false, correction=1, unbiased=nil)",
     "The standard deviation and the mean: two tensors.", std_var_mean<true>},
    {"cov(x, correction=1, fweights=nil, aweights=nil, {out=})",
     "The covariances of the rows (variables) over the columns (observations), [n x m] to [n x n]; "
     "0-d for one variable.\nfweights: how often an observation counts; aweights: how much.",
     bind<cov>},
    {"corrcoef(x)",
     "The correlations of the rows (variables) over the columns, [n x m] to [n x n].",
     bind<corrcoef>},
    {"renorm(x, p, dim, maxnorm)",
     "The parts along dim scaled to a p-norm of maxnorm where theirs is larger.",
     bind<[](const Tensor& x, double p, Dim dim, double max_norm, InPlace in_place) {
       if (!in_place) return renorm(x, p, dim, max_norm);
       return write_("renorm_", x, renorm(wants_grad(x) ? clone(x) : x, p, dim, max_norm));
     }> | kInPlaceToo},
    {"norm(x, p='fro', [dim]=nil, keepdim=false, dtype=nil, {out=})",
     "sum(|x|^p)^(1/p), by default the root of the squares' sum; p may be 0 (counts), math.huge "
     "or -math.huge. Where it is 0 its gradient is 0.",
     norm_body},
    {"diff(x, n=1, dim=-1, prepend=nil, append=nil, {out=})",
     "The differences of neighbours along dim, taken n times; of bools whether they differ.",
     diff_body},
    {"histogram(x, bins, range=nil, weight=nil, density=false)",
     "The number of elements in each of bins equal parts of range={min, max} (by default the "
     "data's), or between the sorted edges of a vector, and the edges: two tensors.\nweight "
     "is how much each element counts; density divides by the sum and the widths.",
     histogram_body},
};

/// Only a method, because mt.dist is for several processes.
const Entry kDist{"dist(x, y, p=2)",
                  "The p-norm of x - y. A method only: mt.dist is for several processes.",
                  bind<[](const Tensor& x, const Tensor& y, double p) { return norm(x - y, p); }>};

}  // namespace

void register_reduce(Registry& c) {
  for (const OwnedEntry& g : generated()) c.both(g.entry);
  c.both(kReduceMethods);
  c.method(kDist);
}

}  // namespace mt::lua
