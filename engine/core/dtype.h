// dtype.h -- names, kinds and promotion of element types
#pragma once
#include <string_view>

#include "engine/core/error.h"
#include "engine/core/thread.h"

namespace mt {

/// The dtype whose elements have this C++ type: Dtype::f32 for float; Dtype::none for other types.
template <class T> inline constexpr Dtype dtype_of = Dtype::none;
#define MT_DTYPE_OF(name, T, ...) template <> inline constexpr Dtype dtype_of<T> = Dtype::name;
MT_DTYPES(MT_DTYPE_OF)
#undef MT_DTYPE_OF
/// 'float32', 'int64', ..; messages can format a Dtype directly.
const char* dtype_name(Dtype);
/// The C type of an element's bits: "float", "uint16_t" and "uint8_t" for floats of 16 and 8 bits.
const char* dtype_ctype(Dtype);
/// The dtype of that name, or Dtype::none.
Dtype dtype_named(std::string_view);
/// Whether it is an integer dtype; bool is not one.
constexpr bool is_integer(Dtype d) { return !is_float(d) && d != Dtype::b8; }
/// The smallest dtype that holds both, as in PyTorch: float wins over integer, integer over bool,
/// then the wider one; uint8 and int8 give int16, the two 8-bit floats give
/// float16, float16 and bfloat16 give float32.
Dtype promote(Dtype, Dtype);
/// Refuses a number that a dtype cannot represent: 300 in uint8, 2.5 in int64.
void check_value(const char* operation, double value, Dtype);
/// The largest integer up to which all integers are exact in the dtype.
int64_t largest_whole(Dtype);
/// Whether results of one dtype may be written in place into another: floats never into integers.
bool can_hold(Dtype target, Dtype result);
/// The default of this thread: float32, or the argument of `set_default_dtype`. Numbers without a dtype get it.
inline Dtype default_dtype() { return thread_state.dtype; }
/// Throws an Error for dtypes that are not floats.
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
