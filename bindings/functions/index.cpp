// index.cpp -- reading and writing with tensors of positions
#include "bindings/core/indexing.h"
#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"

namespace mt::lua {

/// What scatter writes: a tensor, or a number in the dtype of x expanded to the shape of the index.
struct Source : Operand {};
template <> struct Arg<Source> {
  static constexpr Type type = Arg<Operand>::type;
  static Source get(const Args& a, int i) {
    const bool boolean = lua_type(a.L, i) == LUA_TBOOLEAN;
    if (!boolean && lua_type(a.L, i) != LUA_TNUMBER) return {{a.tensor(i)}};
    const double v = boolean ? a.boolean(i) : a.number(i);
    return {{expand(scalar_like(a.called(), v, a.tensor(1)), a.tensor(3).shape())}};
  }
};

namespace {

/// How scatter combines values with x.
enum class ScatterMode { add, multiply };
constexpr std::array<const char*, 2> names_of(ScatterMode) { return {"add", "multiply"}; }

int index_put_body(Args& a) {
  const Tensor& x = a.tensor(1);
  a.table(2);
  if (lua_objlen(a.L, 2) == 0) fail("index_put: indices is empty; at least one tensor is needed");
  Tensor value = a.operand(3);
  if (value.impl()->number) {
    value = scalar_like("index_put", value.at(0), x);
  } else if (value.dtype() != x.dtype()) {
    fail("index_put: the values are {}, the tensor {}; use values:to('{}')",
         dtype_name(value.dtype()), dtype_name(x.dtype()), dtype_name(x.dtype()));
  }
  const bool in_place = a.entry().in_place;
  const Tensor target = in_place ? x : clone(x);
  write_index(a.L, 2, target, value, a.boolean(4), in_place ? "index_put_" : "index_put");
  return in_place ? a.self() : a.push(target);
}

// ---- masks and sorted data ----------------------------------------------------------------------

int choose(Args& a, const Tensor& mask, const Tensor& x, const Tensor& y) {
  const Tensor* inputs[] = {&mask, &x, &y};
  return a.push(elementwise(op::id<op::Where>, inputs));
}

int where_body(Args& a) {
  if (!a.given(2) && !a.given(3)) return a.push(nonzero_list(a.tensor(1), 1));
  if (!a.given(3)) a.wrong(3, "a tensor or a number");
  return choose(a, a.operand(1), a.operand(2), a.operand(3));
}

/// x:where(condition, y) as in PyTorch, and condition:where(x, y).
int where_method(Args& a) {
  if (!a.given(2) || !a.given(3)) return where_body(a);
  const Tensor* middle = tensor_at(a.L, 2);
  if (middle && middle->dtype() == Dtype::b8) return choose(a, *middle, a.operand(1), a.operand(3));
  return where_body(a);
}

/// Converts numbers to the sequence's dtype.
Tensor values_for(const char* name, const Tensor& v, const Tensor& sorted) {
  return v.impl()->number ? scalar_like(name, v.at(0), sorted) : v;
}

int searchsorted_body(Args& a) {
  Tensor sorted = a.tensor(1);
  bool right = a.boolean(3);
  if (a.given(4)) {
    const std::string side = a.text(4);
    if (side != "left" && side != "right")
      fail("searchsorted: the side is '{}'; it must be 'left' or 'right'", side);
    if (a.given(3) && right != (side == "right"))
      fail("searchsorted: side and right contradict each other");
    right = side == "right";
  }
  if (a.given(5)) sorted = gather(sorted, -1, Arg<Index>::get(a, 5));
  const Tensor values = values_for("searchsorted", a.operand(2), sorted);
  return a.push(searchsorted("searchsorted", sorted, values, right, 1));
}

Tensor bucket(const Operand& x, const Tensor& boundaries, bool right) {
  if (boundaries.dim() != 1)
    fail("bucketize: the boundaries are {}; they must have one dimension",
         to_string(boundaries.shape()));
  return searchsorted("bucketize", boundaries, values_for("bucketize", x, boundaries), right, 1);
}

Tensor is_in(const Operand& elements, const Operand& test, bool, bool invert) {
  const Tensor &x = elements.value, &y = test.value;
  if (x.impl()->number && y.impl()->number) fail("isin: one of the two must be a tensor");
  for (const Tensor* t : {&x, &y}) {
    const Tensor& other = t == &x ? y : x;
    if (t->impl()->number) check_value("isin", t->at(0), other.dtype());
  }
  return isin(x, y, invert);
}

/// The range first..last of a dimension, every step-th.
std::array<At, 2> range_of(const char* name, const Tensor& x, Dim dim, int64_t first, int64_t last,
                           int64_t step) {
  const int d = wrap_dim(name, dim, x.dim());
  if (x.dim() == 0) fail("{}: a 0-d tensor has no dimension to slice", name);
  return {At{At::skip, 0, d}, range_in(first, last, step, x.size(d), d, name)};
}

const Entry kIndexMethods[] = {
    {"index_select(x, dim, index)",
     "The positions of a dimension that a 1-d integer tensor lists: a copy.", bind<index_select>},
    {"gather(x, dim, index)",
     "out[i][j] = x[index[i][j]][j] along dim 1, and so on; the index has x's rank.", bind<gather>},
    {"take(x, index)", "The elements at positions of the flattened x, in the index's shape.",
     bind<take>},
    {"take_along_dim(x, index, dim=nil)",
     "gather where x and the index broadcast; without dim both are flattened.",
     bind<take_along_dim>},
    {"scatter(x, dim, index, src, reduce=nil)",
     "x with src[i][j] at [index[i][j]][j] along dim 1, and so on; of several values for one "
     "position the last is kept. src may be a number; reduce combines the values with x.",
     bind<[](const Tensor& x, Dim dim, const Index& index, const Source& src,
             std::optional<ScatterMode> how, InPlace in_place) {
       if (!how) return scatter(x, dim, index, src, in_place);
       const char* const combine = *how == ScatterMode::add ? "sum" : "prod";
       return scatter_reduce(x, dim, index, src, combine, true, in_place);
     }> | kInPlaceToo},
    {"scatter_add(x, dim, index, src)", "x with src added at the positions that gather would read.",
     bind<scatter_add, Tensor, Dim, Index, Source, InPlace> | kInPlaceToo},
    {"scatter_reduce(x, dim, index, src, reduce, include_self=true)",
     "src combined by 'sum', 'prod', 'mean', 'amax' or 'amin' where gather would read.",
     bind<scatter_reduce> | kInPlaceToo},
    {"index_add(x, dim, index, source, alpha=1)",
     "x with alpha times the slices of source added at the positions of a 1-d index.",
     bind<index_add> | kInPlaceToo},
    {"index_copy(x, dim, index, source)",
     "x with the slices of source at the positions of a 1-d index; of several slices for one "
     "position the last is kept, and only it has a gradient.",
     bind<index_copy> | kInPlaceToo},
    {"index_fill(x, dim, index, value)", "x with a number at the positions of a 1-d index.",
     bind<index_fill, Tensor, Dim, Index, Operand, InPlace> | kInPlaceToo},
    {"index_put(x, indices, values, accumulate=false)",
     "x with x[indices] = values; accumulate adds, also where positions repeat.",
     index_put_body | kInPlaceToo},
    {"masked_select(x, mask)", "The elements where a bool mask is set, in row-major order.",
     bind<masked_select>},
    {"masked_fill(x, mask, value)", "x with a number where a bool mask is set.",
     bind<masked_fill, Tensor, Tensor, Operand, InPlace> | kInPlaceToo},
    {"masked_scatter(x, mask, source)",
     "x with the elements of source, in order, where a bool mask is set.",
     bind<masked_scatter> | kInPlaceToo},
    {"nonzero(x, as_tuple=false)",
     "[n x rank], the positions of the nonzero elements; as_tuple: a list of one tensor for "
     "each dimension, as many as x has, which is an index: x[x:nonzero(true)].",
     [](Args& a) {
       const Tensor& x = a.tensor(1);
       return a.boolean(2) ? a.push(nonzero_list(x, 1)) : a.push(nonzero(x, 1));
     }},
    {"argwhere(x)", "[n x rank], the positions of the nonzero elements.",
     bind<[](const Tensor& x) { return nonzero(x, 1); }>},
    {"searchsorted(sorted_sequence, values, right=false, side=nil, sorter=nil)",
     "The position before which each value would be inserted, from 1; after equal ones with right. "
     "The sequence is 1-d, or has one row for each row of values.",
     takes<Tensor, Operand, bool, std::optional<std::string>, Tensor>(searchsorted_body)},
    {"bucketize(x, boundaries, right=false)",
     "The number of the bucket of each element, from 1: boundaries[k - 1] < x <= boundaries[k].",
     bind<bucket>},
    {"isin(elements, test_elements, assume_unique=false, invert=false)",
     "Whether each element is one of test_elements.", bind<is_in>},
    {"slice(x, dim, first=1, last=-1, step=1)",
     "A view of the positions first to last of a dimension, every step-th.",
     bind<[](const char* name, const Tensor& x, Dim dim, int64_t first, int64_t last,
             int64_t step) {
       return index(x, range_of(name, x, dim, first, last, step).data(), 2);
     }>},
};

/// A function of the module only, as in PyTorch.
const Entry kUnravel{
    "unravel_index(indices, [shape])",
    "Positions (from 1) in a flattened tensor, as a list of positions in each dimension.",
    [](Args& a) {
      if (lua_type(a.L, 1) == LUA_TNUMBER)
        fail(
            "unravel_index: the positions are a tensor of integers, "
            "mt.tensor({{{0}}}, 'int64') for {0}",
            show(a.number(1)));
      return a.push(unravel_index(Arg<Index>::get(a, 1), a.new_shape(2)));
    }};

const Entry kWhere{"where(condition, x=nil, y=nil, {out=})",
                   "x where the condition is set, else y; where(condition) is the list that "
                   "nonzero gives as_tuple.",
                   where_body};
const Entry kWhereMethod{"where(x, condition=nil, y=nil, {out=})",
                         "x where the condition is set, else y.", where_method};

}  // namespace

void register_index(Registry& c) {
  c.both(kIndexMethods);
  c.function(kUnravel);
  c.function(kWhere);
  c.method(kWhereMethod);
}

void open_markers(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kNewaxis));
  lua_setfield(L, -2, "newaxis");
  lua_pushlightuserdata(L, const_cast<char*>(&kEllipsis));
  lua_setfield(L, -2, "ellipsis");
}

}  // namespace mt::lua
