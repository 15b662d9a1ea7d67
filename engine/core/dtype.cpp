// dtype.cpp -- names, kinds and promotion of element types
#include "engine/core/dtype.h"

#include <cmath>

#include "engine/core/error.h"

namespace mt {
namespace {

constexpr const char* kNames[kDtypes] = {"bool",    "uint8",   "int32",   "int64",
                                         "float32", "float64", "float16", "bfloat16"};

}  // namespace

const char* dtype_name(Dtype d) { return d == Dtype::none ? "none" : kNames[static_cast<int>(d)]; }

Dtype dtype_named(std::string_view name) {
  for (int i = 0; i < kDtypes; ++i)
    if (name == kNames[i]) return static_cast<Dtype>(i);
  return Dtype::none;
}

// The enum is in the order of promotion, but for the 16-bit floats, which lie between integers and
// float32.
Dtype promote(Dtype a, Dtype b) {
  if (a == Dtype::none || a == b) return b;
  if (b == Dtype::none) return a;
  if (is_half(a)) return is_half(b) ? Dtype::f32 : is_float(b) ? b : a;
  if (is_half(b)) return is_float(a) ? a : b;
  return a < b ? b : a;
}

void check_value(const char* operation, double v, Dtype dtype) {
  if (is_float(dtype)) return;
  const bool whole = v == std::floor(v);
  const bool fits = dtype == Dtype::b8   ? whole
                    : dtype == Dtype::u8 ? whole && v >= 0 && v <= 255
                    : dtype == Dtype::i32
                        ? whole && v >= -2147483648.0 && v <= 2147483647.0
                        : whole && v >= -9223372036854775808.0 && v < 9223372036854775808.0;
  if (!fits) fail("{}: {} does not fit into {}", operation, show(v), dtype_name(dtype));
}

bool can_hold(Dtype target, Dtype result) {
  if (target == Dtype::b8) return result == Dtype::b8;
  return is_float(target) || !is_float(result);
}

void set_default_dtype(Dtype d) {
  if (!is_float(d))
    fail("set_default_dtype: {} is not a float type; use 'float32' or 'float64'", dtype_name(d));
  thread_state.dtype = d;
}

}  // namespace mt
