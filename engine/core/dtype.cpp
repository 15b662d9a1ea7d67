// dtype.cpp -- names, kinds and promotion of element types
#include "engine/core/dtype.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "kernels/math/number.h"

namespace mt {
namespace {

#define MT_TEXT(name, T, text, ...) text,
constexpr const char* kNames[] = {MT_DTYPES(MT_TEXT)};
#undef MT_TEXT
#define MT_TEXT(name, T, ...) \
  !is_reduced_float(Dtype::name) ? #T : is_half(Dtype::name) ? "uint16_t" : "uint8_t",
constexpr const char* kCTypes[] = {MT_DTYPES(MT_TEXT)};
#undef MT_TEXT

}  // namespace

const char* dtype_name(Dtype d) { return d == Dtype::none ? "none" : kNames[int(d)]; }

const char* dtype_ctype(Dtype d) { return kCTypes[int(d)]; }

Dtype dtype_named(std::string_view name) {
  for (int i = 0; i < kDtypes; ++i)
    if (name == kNames[i]) return Dtype(i);
  return Dtype::none;
}

Dtype promote(Dtype a, Dtype b) {
  if (a == Dtype::none || a == b) return b;
  if (b == Dtype::none) return a;
  const auto rank = [](Dtype d) {
    return std::tuple(is_float(d), d != Dtype::b8, item_size(d), d);
  };
  if (rank(a) > rank(b)) std::swap(a, b);
  // A wider dtype if neither holds the other.
  if (is_float(a) && item_size(a) == item_size(b))
    return item_size(a) == 1 ? Dtype::f16 : Dtype::f32;
  return b == Dtype::i8 && a == Dtype::u8 ? Dtype::i16 : b;
}

int64_t largest_whole(Dtype dtype) {
  return with_dtype(dtype, []<class T>(T) {
    if constexpr (math::is_stored<T>) return int64_t(1) << T::kDigits;
    else if constexpr (math::is_floating<T>) return int64_t(1) << (sizeof(T) == 8 ? 53 : 24);
    else return int64_t(math::highest<T>());
  });
}

void check_value(const char* operation, double v, Dtype dtype) {
  if (is_float(dtype)) return;
  // The upper limit plus one, as 2^63 for int64, whose largest value is not a double.
  const auto holds = [&]<class T>(T) {
    if constexpr (math::is_integer<T>)
      return v >= double(math::lowest<T>()) && v < double(math::highest<T>() / 2 + 1) * 2;
    else return true;
  };
  const bool fits = v == std::floor(v) && (dtype == Dtype::b8 || with_dtype(dtype, holds));
  if (!fits) fail("{}: {} does not fit into {}", operation, show(v), dtype);
}

bool can_hold(Dtype target, Dtype result) {
  if (target == Dtype::b8) return result == Dtype::b8;
  return is_float(target) || !is_float(result);
}

void set_default_dtype(Dtype d) {
  if (!is_float(d))
    fail("set_default_dtype: {} is not a float type; use 'float32' or 'float64'", d);
  thread_state.dtype = d;
}

}  // namespace mt

fmt::appender fmt::formatter<mt::Dtype>::format(mt::Dtype d, fmt::format_context& to) const {
  const std::string_view name = mt::dtype_name(d);
  return std::copy(name.begin(), name.end(), to.out());
}
