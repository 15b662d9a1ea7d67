// idx.cpp -- the IDX format of MNIST: a header with the shape, then the values, big-endian
#include "engine/io/formats.h"

#include "engine/io/convert.h"

namespace mt {
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

static Tensor parse_idx(Bytes& bytes) {
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

Tensor parse_idx(const void* data, size_t size) {
  Bytes bytes(data, size);
  return parse_idx(bytes);
}

Tensor read_idx(const std::string& path) {
  Bytes bytes(open_regular("idx", path));
  return reading("idx", path, " is not a valid IDX file", [&] { return parse_idx(bytes); });
}

}  // namespace mt
