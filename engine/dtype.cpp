// dtype.cpp -- names, kinds and promotion of element types
#include "engine/dtype.h"

#include "engine/error.h"

namespace mt {
namespace {

constexpr const char* kNames[kDtypes] = {"bool", "uint8", "int32", "int64", "float32", "float64"};
Dtype the_default = Dtype::f32;

}  // namespace

const char* dtype_name(Dtype d) { return d == Dtype::none ? "none" : kNames[static_cast<int>(d)]; }

Dtype dtype_named(std::string_view name) {
  for (int i = 0; i < kDtypes; ++i)
    if (name == kNames[i]) return static_cast<Dtype>(i);
  return Dtype::none;
}

// The enum is in the order of promotion.
Dtype promote(Dtype a, Dtype b) {
  if (a == Dtype::none) return b;
  if (b == Dtype::none) return a;
  return a < b ? b : a;
}

Dtype default_dtype() { return the_default; }

void set_default_dtype(Dtype d) {
  if (!is_float(d)) fail("set_default_dtype: {} is not a float type; use 'float32' or 'float64'", dtype_name(d));
  the_default = d;
}

}  // namespace mt
