// dtype.h -- names, kinds and promotion of element types
#pragma once
#include <string_view>

#include "engine/core/error.h"
#include "engine/core/thread.h"

namespace mt {

/// 'float32', 'int64', ..; messages take a Dtype as it is.
const char* dtype_name(Dtype);
/// The C type of an element's bits: "float", "uint16_t" for the 16-bit floats.
const char* dtype_ctype(Dtype);
/// The dtype of that name, or Dtype::none.
Dtype dtype_named(std::string_view);
/// Whether it has whole numbers, bool apart.
constexpr bool is_integer(Dtype d) { return !is_float(d) && d != Dtype::b8; }
/// The smallest type that holds both, as in PyTorch: float beats integer, integer beats bool, then
/// the wider one; uint8 and int8 make int16, float16 and bfloat16 float32.
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
#define MT_CASE(name, T, ...) \
  case Dtype::name: return body(T{});
    MT_DTYPES(MT_CASE)
#undef MT_CASE
    default: return body(float{});
  }
}

}  // namespace mt

template <> struct fmt::formatter<mt::Dtype> : mt::PlainFormat {
  fmt::appender format(mt::Dtype, fmt::format_context&) const;
};
