// convert.cpp -- reading elements in file formats into tensors; the IDX format
#include "engine/io/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/io/formats.h"

namespace mt {
template <class T> static void swap_bytes(uint8_t* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i, p += sizeof(T)) {
    T x;
    std::memcpy(&x, p, sizeof x);
    if constexpr (sizeof x == 2) x = __builtin_bswap16(x);
    else if constexpr (sizeof x == 4) x = __builtin_bswap32(x);
    else x = __builtin_bswap64(x);
    std::memcpy(p, &x, sizeof x);
  }
}
static void swap_bytes(void* p, int64_t n, int64_t item) {
  uint8_t* const bytes = static_cast<uint8_t*>(p);
  if (item == 2) swap_bytes<uint16_t>(bytes, n);
  if (item == 4) swap_bytes<uint32_t>(bytes, n);
  if (item == 8) swap_bytes<uint64_t>(bytes, n);
}

template <class From, class To> static void widen(const uint8_t* from, To* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    From x;
    std::memcpy(&x, from + i * int64_t(sizeof x), sizeof x);
    to[i] = To(x);
  }
}

/// Called with the bytes of x read: converts invalid values, or throws Error.
static void check_values(Stored stored, const Tensor& x) {
  if (stored == Stored::boolean) {
    uint8_t* const p = x.data_as<uint8_t>();
    for (int64_t i = 0; i < x.numel(); ++i) p[i] = p[i] != 0;
  } else if (stored == Stored::u64) {
    const int64_t* const p = x.data_as<int64_t>();
    if (const auto* at = std::find_if(p, p + x.numel(), [](int64_t v) { return v < 0; });
        at != p + x.numel())
      throw CannotHold(fmt::format("the uint64 {} does not fit int64", uint64_t(*at)));
  }
}

void read_stored(Bytes& bytes, const StoredType& type, const Tensor& x, bool swapped) {
  const int64_t item = type.size(), n = x.numel();
  const auto need = [&](void* to, int64_t count) {
    bytes.need(to, size_t(count * item), "its values");
    if (swapped) swap_bytes(to, count, item);
  };
  if (item == item_size(x.dtype())) {
    need(x.data(), n);
    return check_values(type.stored, x);
  }
  uint8_t piece[8192];
  const int64_t most = int64_t(sizeof piece) / item;
  for (int64_t at = 0; at < n; at += most) {
    const int64_t some = std::min(most, n - at);
    need(piece, some);
    if (type.stored == Stored::u16) widen<uint16_t>(piece, x.data_as<int32_t>() + at, some);
    else widen<uint32_t>(piece, x.data_as<int64_t>() + at, some);
  }
}

// ---- the IDX format of MNIST: a header with the shape, then the values, big-endian ---------------

static Shape read_shape(Bytes& bytes, int dims) {
  if (dims > kMaxDims) fail("it has {} dimensions, a tensor has at most {}", dims, kMaxDims);
  Shape shape;
  for (int d = 0; d < dims; ++d) {
    uint32_t size;
    bytes.need(&size, 4, "its shape");
    shape.push(int64_t(__builtin_bswap32(size)));
  }
  return shape;
}

Tensor parse_idx(Bytes&& bytes) {
  uint8_t magic[4];
  bytes.need(magic, 4, "its first four bytes");
  if (magic[0] != 0 || magic[1] != 0)
    fail("it begins with bytes {:02x} {:02x}, an IDX file with 00 00", magic[0], magic[1]);
  const StoredType* type =
      find_stored([&](const StoredType& t) { return t.idx && t.idx == magic[2]; });
  if (!type) fail("its type byte is {:02x}, valid IDX types are 08 09 0b 0c 0d 0e", magic[2]);
  const Shape shape = read_shape(bytes, magic[3]);
  const int64_t n = checked_count("its shape", shape);
  if (uint64_t(n) > bytes.at_most() / uint64_t(type->size()))
    fail("its shape {} needs {} values, more than the file can hold", to_string(shape), n);
  const Tensor out = empty(shape, type->dtype);
  read_stored(bytes, *type, out, true);
  if (!bytes.ended()) fail("bytes follow the {} values of its shape {}", n, to_string(shape));
  return out;
}

}  // namespace mt
