// out.cpp -- {out=t}: writes the result of a function into a tensor of the caller

#include "bindings/core/lua.h"
#include "engine/autograd/graph.h"

namespace mt::lua {
static bool shares_memory(const Tensor& a, const Tensor& b) {
  return a.impl()->storage == b.impl()->storage;
}

/// Checks that the result fits before anything is written.
static void check_fits(const Tensor& out, const Tensor& made) {
  if (!(made.shape() == out.shape()))
    fail("out is {}, the result {}; they must have one shape", to_string(out.shape()),
         to_string(made.shape()));
  if (!can_hold(out.dtype(), made.dtype()))
    fail("out is {}, which cannot hold the result, {}", dtype_name(out.dtype()),
         dtype_name(made.dtype()));
  if (&out.device() != &made.device())
    fail("out is on {}, the result on {}", out.device().name, made.device().name);
}

void check_one_result(int results) {
  if (results != 1)
    fail("out=: this call has several results; take them as they are, and copy_ them");
}

int write_into(Args& a, int at, const std::function<Tensor()>& make) {
  lua_State* L = a.L;
  if (!tensor_at(L, at)) fail("out must be a tensor, got {}", describe(L, at));
  const Tensor out = *tensor_at(L, at);
  bool shares = false, recorded = out.requires_grad();
  for (int i = 1; i < at; ++i)
    if (const Tensor* t = tensor_at(L, i))
      shares |= shares_memory(*t, out), recorded |= t->requires_grad();
  if (recorded && grad_enabled())
    fail(
        "out=: a result that requires a gradient cannot be written there; omit out, or use "
        "mt.no_grad(function) around the call");
  check_writable("out", out);
  const Into into(shares ? nullptr : &out);
  if (const Tensor made = make(); !same_place(made, out)) {
    check_fits(out, made);
    copy_(out, made);
  }
  lua_pushvalue(L, at);
  return 1;
}

int run_into(Args& a, int at, int (*body)(Args&)) {
  return write_into(a, at, [&a, body] {
    check_one_result(body(a));
    const Tensor* made = tensor_at(a.L, -1);
    if (!made) fail("out=: this call returns {}, not a tensor", describe(a.L, -1));
    return *made;
  });
}

bool may_write_to(const Args& a, const Tensor* const* inputs, int n) {
  const Tensor& out = *tensor_at(a.L, a.out());
  for (int i = 0; i < n; ++i)
    if (shares_memory(*inputs[i], out) && !same_place(*inputs[i], out)) return false;
  return true;
}

}  // namespace mt::lua
