// elementwise.h -- the loops of the map verb, for who runs formulas block by block
#pragma once
#include <type_traits>

#include "kernels/ops.h"

namespace mt {
inline namespace MT_ISA {

/// One formula over contiguous data: data[0] the result, then the inputs. `one`: the input, from 0,
/// that is one element for all of the block; -1 for none.
using ElementwiseLoop = void (*)(char* const* data, int64_t n, const double* scalar, int one);

/// The loop of operation `op` for elements that are calculated in `dtype`; null where there is none.
/// `takes_one`: it has a way for an input of one element.
ElementwiseLoop elementwise_loop(int op, Dtype dtype, bool& takes_one);

/// The operations whose loops of float32 call the formulas with Packs (kernels/cpu/simd/pack.h), those of
/// the derivatives too. Their bits in AVX2 and in AVX-512 differ: by a quotient and by an estimate that is
/// mended.
using Packed =
    op::List<op::Rsqrt, op::Exp, op::Expm1, op::Exp2, op::Log, op::Log1p, op::Log2, op::Log10,
             op::Entr, op::Sin, op::Cos, op::Tan, op::Sinc, op::Asin, op::Acos, op::Atan, op::Erf,
             op::Erfc, op::Erfinv, op::Ndtr, op::Tanh, op::Tanhshrink, op::Sigmoid, op::Logit,
             op::Elu, op::Celu, op::Selu, op::Gelu, op::GeluTanh, op::Silu, op::Softplus,
             op::Logsigmoid, op::Mish, op::Xlogy, op::Xlog1py, op::Logaddexp, op::Logaddexp2>;
template <class Op, class... One> constexpr bool is_one_of(op::List<One...>) {
  return (std::is_same_v<Op, One> || ...);
}

}  // namespace MT_ISA
}  // namespace mt
