// make.cpp -- making tensors, continued: from bytes, like another, at other distances
#include "engine/make.h"

#include <cmath>
#include <cstring>

#include "engine/ops.h"

namespace mt {

Tensor logspace(double first, double last, int64_t n, double base, Dtype dtype,
                const Device& device) {
  if (!is_float(dtype)) fail("logspace: {} cannot hold fractions", dtype_name(dtype));
  Tensor out = empty({n}, dtype);
  with_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < n; ++i) {
      const double at = n > 1 ? double(i) / double(n - 1) : 0;
      out.data_as<T>()[i] = static_cast<T>(std::pow(base, first * (1 - at) + last * at));
    }
  });
  return to(out, device);
}

Tensor from_bytes(std::string_view bytes, Dtype dtype, const Shape* shape) {
  const int64_t item = item_size(dtype), have = int64_t(bytes.size());
  if (!shape && have % item)
    fail("frombuffer: {} bytes are not a whole number of {} elements of {} bytes", have,
         dtype_name(dtype), item);
  const Shape size = shape ? *shape : Shape{have / item};
  const int64_t n = checked_count("frombuffer", size);
  if (n * item != have)
    fail("frombuffer: {} {} needs {} bytes, the string has {}", to_string(size), dtype_name(dtype),
         n * item, have);
  Tensor out = empty(size, dtype);
  if (have > 0) std::memcpy(out.data(), bytes.data(), bytes.size());
  if (dtype == Dtype::b8)  // a bool that is neither 0 nor 1 is undefined
    for (uint8_t* p = static_cast<uint8_t*>(out.data()); n > p - out.data_as<uint8_t>(); ++p)
      *p = *p != 0;
  return out;
}

}  // namespace mt
