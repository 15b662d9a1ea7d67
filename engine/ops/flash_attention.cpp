// flash_attention.cpp -- attention of 16-bit floats with a GPU verb, without mask or dropout
#include "engine/ops/flash_attention.h"

#include <climits>

#include "engine/ops/ops.h"

namespace mt {
namespace {

/// x, or a copy whose features are contiguous and whose rows are aligned to 16 bytes.
Tensor align(const Tensor& x) {
  bool aligned = reinterpret_cast<uintptr_t>(x.data()) % 16 == 0 && x.stride(3) == 1;
  for (int d = 0; d < 3; ++d) aligned = aligned && (x.size(d) == 1 || x.stride(d) % 8 == 0);
  return aligned ? x : clone(x);
}
FlashInputs align(const FlashInputs& in) {
  return {align(in.q), align(in.k), align(in.v), in.scale, in.causal};
}

/// A new tensor, with the heads inside the rows if x has them there; its values are undefined.
Tensor empty_like(const Tensor& x, int64_t features) {
  const int64_t b = x.size(0), h = x.size(1), n = x.size(2);
  if (x.stride(1) >= x.stride(2)) return empty({b, h, n, features}, x);
  return transpose(empty({b, n, h, features}, x), 1, 2);
}

AttentionSide side(const Tensor& x) { return {x.data(), x.stride(0), x.stride(1), x.stride(2)}; }

FlashAttention call(const FlashInputs& in, const Tensor& out, const Tensor& log_sums) {
  FlashAttention a{};
  a.dtype = in.q.dtype(), a.causal = in.causal, a.scale = float(in.scale);
  a.batch = in.q.size(0), a.heads = int(in.q.size(1)), a.shared_heads = int(in.k.size(1));
  a.queries = int(in.q.size(2)), a.keys = int(in.k.size(2));
  a.features = int(in.q.size(3)), a.value_features = int(in.v.size(3));
  a.q = side(in.q), a.k = side(in.k), a.v = side(in.v), a.out = side(out);
  a.log_sums = log_sums.argument_as<float>();
  return a;
}
Tensor sums_for(const Tensor& q) {
  return empty({q.size(0), q.size(1), attention_rows(q.size(2))}, Dtype::f32, q.device());
}

}  // namespace

bool takes_flash_attention(const FlashInputs& in) {
  const Tensor &q = in.q, &k = in.k, &v = in.v;
  if (!is_half(q.dtype()) || !(in.scale > 1e-30 && in.scale < 1e30)) return false;
  for (const Tensor* x : {&q, &k, &v}) {
    if (x->dim() != 4 || x->dtype() != q.dtype() || &x->device() != &q.device()) return false;
    if (x->numel() == 0 || x->size(0) != q.size(0) || x->size(3) % 8 != 0) return false;
    if (x->size(3) > kAttentionFeatures || x->size(2) > INT_MAX / 2) return false;
  }
  const int64_t blocks = q.size(0) * q.size(1) * ((std::max(q.size(2), k.size(2)) + 63) / 64);
  return k.size(1) == v.size(1) && q.size(1) % k.size(1) == 0 && k.size(2) == v.size(2) &&
         q.size(3) == k.size(3) && blocks < INT_MAX;
}

TensorList flash_attention(const FlashInputs& given) {
  const FlashInputs in = align(given);
  const Tensor out = empty_like(in.q, in.v.size(3)), log_sums = sums_for(in.q);
  in.q.device().flash_attention(call(in, out, log_sums));
  return {out, log_sums};
}

TensorList flash_attention_backward(const FlashInputs& given, const Tensor& out,
                                    const Tensor& log_sums, const Tensor& slope) {
  const FlashInputs in = align(given);
  const Tensor grad = align(slope), delta = sums_for(in.q);
  const Tensor dq = empty_like(in.q, in.q.size(3)), dk = empty_like(in.k, in.k.size(3)),
               dv = empty_like(in.v, in.v.size(3));
  FlashAttention a = call(in, out, log_sums);
  a.backward = true, a.delta = delta.argument_as<float>();
  a.grad = side(grad), a.q_grad = side(dq), a.k_grad = side(dk), a.v_grad = side(dv);
  in.q.device().flash_attention(a);
  return {dq, dk, dv};
}

}  // namespace mt
