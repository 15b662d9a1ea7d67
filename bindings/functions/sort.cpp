// sort.cpp -- functions based on sorting, and counts of values
#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"

namespace mt::lua {

int push_result(const Args& a, ValuesIndices p) {
  a.push(std::exchange(p.values, {}));
  return 1 + push_positions(a, p.index);
}

namespace {

template <Tensor (*whole)(const Tensor&), ValuesIndices (*along)(const Tensor&, Dim, bool)>
WithPositions median_of(const Tensor& x, std::optional<Dim> dim, bool keepdim) {
  if (!dim) return {whole(x), {}};
  ValuesIndices p = along(x, *dim, keepdim);
  return {std::move(p.values), Positions{std::move(p.index)}};
}

template <bool SkipNan>
Tensor quantile_of(const Tensor& x, const Operand& q, std::optional<Dim> dim, bool keepdim,
                   QuantileRule rule) {
  const Tensor& t = q.value;
  if (t.dtype() == Dtype::b8) fail("q is bool; it must be a number or a tensor of numbers");
  if (t.dim() > 1) fail("q is {}; it must be a number or have one dimension", to_string(t.shape()));
  std::vector<double> fractions;
  for (int64_t i = 0; i < t.numel(); ++i) fractions.push_back(t.at(i));
  const Tensor y =
      quantile(x, fractions, dim, keepdim, rule, SkipNan, t.impl()->number ? Tensor() : t);
  return t.dim() == 0 ? squeeze(y, 0) : y;
}

UniqueParts parts_of(Unique u, bool inverse, bool counts) {
  UniqueParts parts{std::move(u.values), {}, {}};
  if (inverse) std::get<1>(parts) = Positions{std::move(u.inverse)};
  if (counts) std::get<2>(parts) = std::move(u.counts);
  return parts;
}

const Entry kSortMethods[] = {
    {"sort(x, dim=-1, descending=false, stable=false)",
     "The elements in order along dim, and their positions; always stable, NaN is the largest.",
     bind<[](const Tensor& x, Dim dim, bool descending, bool) {
       return sort(x, dim, descending);
     }>},
    {"argsort(x, dim=-1, descending=false, stable=false)",
     "The positions that bring x into order along dim; always stable.",
     bind<[](const Tensor& x, Dim dim, bool descending, bool) {
       NoGrad off;
       return Positions{sort(x, dim, descending).index};
     }>},
    {"msort(x)", "The elements in order along dimension 1, without their positions.",
     bind<[](const Tensor& x) { return sort(x, 0).values; }>},
    {"topk(x, k, dim=-1, largest=true, sorted=true)",
     "The k largest (or smallest) elements along dim, in order, and their positions.",
     bind<[](const Tensor& x, int64_t k, Dim dim, bool largest, bool) {
       return topk(x, k, dim, largest);
     }>},
    {"kthvalue(x, k, dim=-1, keepdim=false)",
     "The k-th smallest element along dim, and its position.", bind<kthvalue>},
    {"median(x, dim=nil, keepdim=false)",
     "The lower of the two middle values, or NaN if there is one; with dim also the positions.",
     bind<median_of<median, median>>},
    {"nanmedian(x, dim=nil, keepdim=false)", "The median of the elements that are not NaN.",
     bind<median_of<nanmedian, nanmedian>>},
    {"mode(x, dim=-1, keepdim=false)",
     "The smallest of the most frequent values along dim, and its last position.", bind<mode>},
    {"quantile(x, q, dim=nil, keepdim=false, interpolation='linear')",
     "The element at the fraction q (0..1) of the sorted order, or NaN if there is one. A 1-d "
     "tensor q gives a new first dimension.",
     bind<quantile_of<false>>},
    {"nanquantile(x, q, dim=nil, keepdim=false, interpolation='linear')",
     "The quantile of the elements that are not NaN.", bind<quantile_of<true>>},
    {"unique(x, sorted=true, return_inverse=false, return_counts=false, dim=nil)",
     "Each value once, in order (each slice along dim); then for each element the position of its "
     "value, then how often each occurs.",
     bind<[](const Tensor& x, bool, bool inverse, bool counts, std::optional<Dim> dim) {
       return parts_of(unique(x, dim), inverse, counts);
     }>},
    {"unique_consecutive(x, return_inverse=false, return_counts=false, dim=nil)",
     "Like unique, without sorting: only neighbours that are equal become one.",
     bind<[](const Tensor& x, bool inverse, bool counts, std::optional<Dim> dim) {
       return parts_of(unique(x, dim, true), inverse, counts);
     }>},
    {"bincount(x, weights=nil, minlength=0)",
     "How often each of 1, 2, .. occurs in a 1-d integer tensor, or the sum of its weights.",
     bind<[](const Tensor& x, const Tensor& weights, int64_t minlength) {
       return bincount(x, weights, minlength, 1);
     }>},
    {"histc(x, bins=100, min=0, max=0)",
     "The number of elements in each of `bins` equal parts of min..max; both 0: of x's range.",
     bind<histc>},
};

}  // namespace

void register_sort(Registry& c) { c.both(kSortMethods); }

}  // namespace mt::lua
