// shape.cpp -- the same elements in other shapes: views, joins and splits
#include "bindings/functions/functions.h"
#include "engine/ops.h"

namespace mt::lua {
namespace {


/// Functions of the module that are not methods.
const Entry kFunctions[] = {
    {"cat([tensors], dim=1)", "Joins tensors along a dimension.",
     [](Args& a) { return a.push(cat(a.tensors(1), a.given(2) ? a.position(2) : 0)); }},
    {"stack([tensors], dim=1)", "Joins tensors of one shape along a new dimension.",
     [](Args& a) { return a.push(stack(a.tensors(1), a.given(2) ? a.position(2) : 0)); }},
};

/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"view(x, [shape..])",
     "The same elements in another shape, without a copy; -1 for one size that follows.",
     [](Args& a) { return a.push(view(a.tensor(1), a.shape(2))); }},
    {"reshape(x, [shape..])", "The same elements in another shape, copied where they must be.",
     [](Args& a) { return a.push(reshape(a.tensor(1), a.shape(2))); }},
    {"flatten(x, first=1, last=-1)", "Joins dimensions first to last into one.",
     [](Args& a) {
       return a.push(
           flatten(a.tensor(1), a.given(2) ? a.position(2) : 0, a.given(3) ? a.position(3) : -1));
     }},
    {"permute(x, [dims..])", "The dimensions in another order.",
     [](Args& a) { return a.push(permute(a.tensor(1), a.dims(2))); }},
    {"transpose(x, dim1, dim2)", "Two dimensions exchanged.",
     [](Args& a) { return a.push(transpose(a.tensor(1), a.position(2), a.position(3))); }},
    {"t(x)", "The transposed matrix.", [](Args& a) { return a.push(t(a.tensor(1))); }},
    {"expand(x, [shape..])", "Sizes of 1 repeated without a copy; -1 keeps a size.",
     [](Args& a) { return a.push(expand(a.tensor(1), a.shape(2))); }},
    {"expand_as(x, y)", "x expanded to the shape of y.",
     [](Args& a) { return a.push(expand(a.tensor(1), a.tensor(2).shape())); }},
    {"squeeze(x, dim=nil)", "Without the dimensions of size 1, or without one of them.",
     [](Args& a) {
       return a.push(a.given(2) ? squeeze(a.tensor(1), a.position(2)) : squeeze(a.tensor(1)));
     }},
    {"unsqueeze(x, dim)", "With a new dimension of size 1.",
     [](Args& a) { return a.push(unsqueeze(a.tensor(1), a.position(2))); }},
    {"narrow(x, dim, first, length)", "A view of `length` positions of a dimension.",
     [](Args& a) {
       const Tensor& x = a.tensor(1);
       const int d = wrap_dim("narrow", a.position(2), x.dim());
       int64_t first = a.position(3);
       const int64_t length = a.integer(4), size = x.dim() > 0 ? x.size(d) : 0;
       if (first < 0) first += size;
       if (first < 0 || length < 0 || first + length > size)
         fail("narrow: {} positions from {} do not lie inside 1..{} (dimension {})", length,
              first + 1, size, d + 1);
       return a.push(slice(x, d, first, length));
     }},
    {"select(x, dim, index)", "One position of a dimension, which goes away.",
     [](Args& a) { return a.push(pick(a.tensor(1), a.position(2), a.position(3))); }},
};

}  // namespace

void open_shape(lua_State* L) {
  add(L, kFunctions);
  add_methods(L, kMethods);
}

}  // namespace mt::lua
