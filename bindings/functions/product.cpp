// product.cpp -- products of matrices and vectors
#include "bindings/functions/functions.h"
#include "engine/ops.h"

namespace mt::lua {
namespace {


/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"matmul(x, y)", "The matrix product; batches broadcast; vectors as in torch.matmul.",
     [](Args& a) { return a.push(matmul(a.tensor(1), a.tensor(2))); }},
    {"mm(x, y)", "The product of two matrices.",
     [](Args& a) {
       if (a.tensor(1).dim() != 2 || a.tensor(2).dim() != 2)
         fail("mm: two matrices are needed, got {} and {}; use matmul",
              to_string(a.tensor(1).shape()), to_string(a.tensor(2).shape()));
       return a.push(matmul(a.tensor(1), a.tensor(2)));
     }},
    {"dot(x, y)", "The sum of the products of two vectors.",
     [](Args& a) {
       if (a.tensor(1).dim() != 1 || a.tensor(2).dim() != 1)
         fail("dot: two vectors are needed, got {} and {}; use matmul",
              to_string(a.tensor(1).shape()), to_string(a.tensor(2).shape()));
       return a.push(matmul(a.tensor(1), a.tensor(2)));
     }},
    {"linear(x, weight, bias=nil)", "x . weight' + bias, with weight [out x in].",
     [](Args& a) {
       return a.push(linear(a.tensor(1), a.tensor(2), a.given(3) ? a.tensor(3) : Tensor()));
     }},
};

}  // namespace

void open_product(lua_State* L) {
  add_methods(L, kMethods);
}

}  // namespace mt::lua
