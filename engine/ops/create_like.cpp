// create_like.cpp -- zeros_like and its kin, logspace, from_bytes
#include "engine/ops/create_like.h"

#include <cmath>
#include <cstring>

#include "engine/core/constants.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/parallel.h"

namespace mt {

Tensor logspace(double first, double last, int64_t n, double base, Dtype dtype,
                const Device& device) {
  if (!is_float(dtype)) fail("logspace: {} cannot hold fractions", dtype_name(dtype));
  const Tensor out = with_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    return constants<T>({n}, [&](T* to) {
      parallel_strips(n, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const double at = n > 1 ? double(i) / double(n - 1) : 0;
          to[i] = static_cast<T>(std::pow(base, first * (1 - at) + last * at));
        }
      });
    });
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
  uint8_t* const to = static_cast<uint8_t*>(out.data());
  parallel_strips(have, [&](int64_t i, int64_t end) {
    std::memcpy(to + i, bytes.data() + i, size_t(end - i));
    for (; dtype == Dtype::b8 && i < end; ++i) to[i] = to[i] != 0;  // another bool is undefined
  });
  return out;
}

}  // namespace mt
