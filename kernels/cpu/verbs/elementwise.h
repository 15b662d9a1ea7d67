// elementwise.h -- the loops of the map verb, for callers that run formulas block by block
#pragma once
#include <type_traits>

#include "kernels/ops.h"

namespace mt {
inline namespace MT_ISA {

/// One formula over contiguous data: data[0] is the result, then the inputs follow. `one`: the
/// input, counted from 0, that has one element for the whole block; -1 if there is none.
using ElementwiseLoop = void (*)(char* const* data, int64_t n, const double* scalar, int one);

/// The loop of operation `op` for elements that are computed in `dtype`, or null. `takes_one`: it
/// has a special case for an input of one element.
ElementwiseLoop elementwise_loop(int op, Dtype dtype, bool& takes_one);

/// Converts n contiguous elements; there are loops between the dtypes of computations.
using ConvertLoop = void (*)(char* to, const char* from, int64_t n);
ConvertLoop convert_loop(Dtype to, Dtype from);

/// The operations whose float32 loops call the formulas with Packs (kernels/cpu/simd/pack.h), also
/// for the derivatives. Their bits differ between AVX2 and AVX-512: by a quotient, and by a
/// reciprocal estimate that is refined.
using Packed = op::List<op::Rsqrt, op::Exp, op::Expm1, op::Exp2, op::Log, op::Log1p, op::Log2,
                        op::Log10, op::Sin, op::Cos, op::Tan, op::Sinc, op::Asin, op::Acos,
                        op::Atan, op::Erf, op::Erfc, op::Erfinv, op::Ndtr, op::Tanh, op::Tanhshrink,
                        op::Sigmoid, op::Logit, op::Elu, op::Celu, op::Selu, op::Gelu, op::GeluTanh,
                        op::Silu, op::Softplus, op::Logsigmoid, op::Mish, op::Xlogy, op::Logaddexp>;
template <class Op, class... One> constexpr bool is_one_of(op::List<One...>) {
  return (std::is_same_v<Op, One> || ...);
}

}  // namespace MT_ISA
}  // namespace mt
