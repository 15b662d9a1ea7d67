// elementwise.h -- the loops of the map verb, for who runs formulas block by block
#pragma once
#include "kernels/base.h"

namespace mt {
inline namespace MT_ISA {

/// One formula over contiguous data: data[0] the result, then the inputs. `one`: the input, from 0,
/// that is one element for all of the block; -1 for none.
using ElementwiseLoop = void (*)(char* const* data, int64_t n, const double* scalar, int one);

/// The loop of operation `op` for elements that are calculated in `dtype`; null where there is none.
/// `takes_one`: it has a way for an input of one element.
ElementwiseLoop elementwise_loop(int op, Dtype dtype, bool& takes_one);

}  // namespace MT_ISA
}  // namespace mt
