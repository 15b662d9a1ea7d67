// dtype.h -- names, kinds and promotion of element types
#pragma once
#include <string_view>
#include <utility>

#include "engine/core/thread.h"

namespace mt {

/// 'float32', 'int64', ..
const char* dtype_name(Dtype);
/// The dtype of that name, or Dtype::none.
Dtype dtype_named(std::string_view);
/// The smallest type that holds both, as in PyTorch: float beats integer, integer beats bool, then
/// the wider one; float16 and bfloat16 make float32.
Dtype promote(Dtype, Dtype);
/// Refuses a number that a dtype cannot hold: 300 in uint8, 2.5 in int64.
void check_value(const char* operation, double value, Dtype);
/// Whether results of one type may be written into another in place: floats never into integers.
bool can_hold(Dtype target, Dtype result);
/// Of this thread: float32, unless `set_default_dtype` said float64. Numbers without a dtype become this.
inline Dtype default_dtype() { return thread_state.dtype; }
void set_default_dtype(Dtype);

/// Calls `body(T{})` with the C++ type of a dtype.
template <class Body> decltype(auto) with_dtype(Dtype d, Body&& body) {
  switch (d) {
    case Dtype::b8: return body(bool{});
    case Dtype::u8: return body(uint8_t{});
    case Dtype::i32: return body(int32_t{});
    case Dtype::i64: return body(int64_t{});
    case Dtype::f64: return body(double{});
    case Dtype::f16: return body(Float16{});
    case Dtype::bf16: return body(Bfloat16{});
    default: return body(float{});
  }
}

}  // namespace mt
