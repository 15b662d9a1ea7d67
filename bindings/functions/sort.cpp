// sort.cpp -- functions that need an order, and counts of values
#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt::lua {

namespace {

/// Positions that nobody else holds are counted from 1 in place: no second copy.
int push_own_positions(const Args& a, const Tensor& index) {
  if (index.impl()->storage->refs > 1) return push_positions(a, index);
  NoGrad off;
  add_(index, Tensor(1.0));
  return a.push(index);
}

}  // namespace

int push_picked(const Args& a, ValuesIndices p) {
  a.push(p.values);
  p.values.reset();
  return 1 + push_own_positions(a, p.index);
}

namespace {

int64_t dim_or(const Args& a, int i, int64_t fallback) {
  return a.given(i) ? a.position(i) : fallback;
}

int sort_body(Args& a) {
  a.boolean(4, false);
  return push_picked(a, sort(a.tensor(1), dim_or(a, 2, -1), a.boolean(3, false)));
}
int argsort_body(Args& a) {
  NoGrad off;
  a.boolean(4, false);
  return push_own_positions(a, sort(a.tensor(1), dim_or(a, 2, -1), a.boolean(3, false)).index);
}
int topk_body(Args& a) {
  a.boolean(5, true);
  return push_picked(a, topk(a.tensor(1), a.integer(2), dim_or(a, 3, -1), a.boolean(4, true)));
}
int kthvalue_body(Args& a) {
  return push_picked(a, kthvalue(a.tensor(1), a.integer(2), dim_or(a, 3, -1), a.boolean(4, false)));
}
template <Tensor (*whole)(const Tensor&), ValuesIndices (*along)(const Tensor&, int64_t, bool)>
int middle(Args& a) {
  const bool keepdim = a.boolean(3, false);
  if (!a.given(2)) return a.push(whole(a.tensor(1)));
  return push_picked(a, along(a.tensor(1), a.position(2), keepdim));
}
int mode_body(Args& a) {
  return push_picked(a, mode(a.tensor(1), dim_or(a, 2, -1), a.boolean(3, false)));
}

QuantileRule interpolation(const Args& a, int i) {
  if (!a.given(i)) return QuantileRule::linear;
  const std::string s = a.text(i);
  static const char* const names[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  for (int k = 0; k < 5; ++k)
    if (s == names[k]) return QuantileRule(k);
  fail("{}: interpolation is '{}'; use 'linear', 'lower', 'higher', 'midpoint' or 'nearest'",
       signature_of(a.entry()).name, s);
}

template <bool SkipNan> int quantile_body(Args& a) {
  const Tensor& x = a.tensor(1);
  std::vector<double> fractions;
  bool one = true;
  if (const Tensor* q = tensor_at(a.L, 2)) {
    if (q->dim() > 1)
      fail("{}: q is {}; it must be a number or have one dimension", signature_of(a.entry()).name,
           to_string(q->shape()));
    one = q->dim() == 0;
    for (int64_t i = 0; i < q->numel(); ++i) fractions.push_back(q->at(i));
  } else {
    if (lua_type(a.L, 2) != LUA_TNUMBER) a.wrong(2, "a number or a tensor");
    fractions.push_back(a.number(2));
  }
  std::optional<int64_t> dim;
  if (a.given(3)) dim = a.position(3);
  const Tensor* q = tensor_at(a.L, 2);
  const Tensor y = quantile(x, fractions, dim, a.boolean(4, false), interpolation(a, 5), SkipNan,
                            q ? *q : Tensor());
  return a.push(one ? squeeze(y, 0) : y);
}

int unique_answers(Args& a, const Unique& u, bool inverse, bool counts) {
  int n = a.push(u.values);
  if (inverse) n += push_positions(a, u.inverse);
  if (counts) n += a.push(u.counts);
  return n;
}
int unique_body(Args& a) {
  a.boolean(2, true);
  const bool inverse = a.boolean(3, false), counts = a.boolean(4, false);
  std::optional<int64_t> dim;
  if (a.given(5)) dim = a.position(5);
  return unique_answers(a, unique(a.tensor(1), dim), inverse, counts);
}
int unique_consecutive_body(Args& a) {
  const bool inverse = a.boolean(2, false), counts = a.boolean(3, false);
  std::optional<int64_t> dim;
  if (a.given(4)) dim = a.position(4);
  return unique_answers(a, unique(a.tensor(1), dim, true), inverse, counts);
}

int bincount_body(Args& a) {
  const Tensor weights = a.given(2) ? a.tensor(2) : Tensor();
  return a.push(bincount(a.tensor(1), weights, a.integer(3, 0), 1));
}

/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"sort(x, dim=-1, descending=false, stable=false)",
     "The elements in order along dim, and their positions; always stable, NaN is the largest.",
     sort_body},
    {"argsort(x, dim=-1, descending=false, stable=false)",
     "The positions that bring x into order along dim; always stable.", argsort_body},
    {"msort(x)", "The elements in order along dimension 1, without their positions.",
     [](Args& a) { return a.push(sort(a.tensor(1), 0).values); }},
    {"topk(x, k, dim=-1, largest=true, sorted=true)",
     "The k largest (or smallest) elements along dim, in order, and their positions.", topk_body},
    {"kthvalue(x, k, dim=-1, keepdim=false)",
     "The k-th smallest element along dim, and its position.", kthvalue_body},
    {"median(x, dim=nil, keepdim=false)",
     "The lower of the two in the middle, NaN wins; with dim values and positions.",
     middle<median, median>},
    {"nanmedian(x, dim=nil, keepdim=false)", "The median of what is not NaN.",
     middle<nanmedian, nanmedian>},
    {"mode(x, dim=-1, keepdim=false)",
     "The smallest of the most frequent values along dim, and where it stands last.", mode_body},
    {"quantile(x, q, dim=nil, keepdim=false, interpolation='linear')",
     "The element at the fraction q (0..1) of the sorted order; NaN wins. A 1-d tensor q gives a "
     "new first dimension. Also 'lower', 'higher', 'midpoint', 'nearest'.",
     quantile_body<false>},
    {"nanquantile(x, q, dim=nil, keepdim=false, interpolation='linear')",
     "The quantile of what is not NaN.", quantile_body<true>},
    {"unique(x, sorted=true, return_inverse=false, return_counts=false, dim=nil)",
     "Each value once, in order (each slice along dim); then for each element the position of its "
     "value, then how often each stands.",
     unique_body},
    {"unique_consecutive(x, return_inverse=false, return_counts=false, dim=nil)",
     "Like unique, without sorting: only neighbours that are equal become one.",
     unique_consecutive_body},
    {"bincount(x, weights=nil, minlength=0)",
     "How often each of 1, 2, .. stands in a 1-d integer tensor, or the sum of its weights.",
     bincount_body},
    {"histc(x, bins=100, min=0, max=0)",
     "How many elements lie in each of `bins` equal parts of min..max; both 0: of x's range.",
     [](Args& a) {
       return a.push(histc(a.tensor(1), a.integer(2, 100), a.number(3, 0), a.number(4, 0)));
     }},
};

}  // namespace

void register_sort(Registry& c) { c.add_with_method(kMethods); }

}  // namespace mt::lua
