// idx.cpp -- the IDX format of MNIST: a few bytes of shape, then the values, big-endian
#include "engine/io/idx.h"

#include <algorithm>
#include <cstring>

#include "engine/io/bytes.h"

namespace mt {
namespace {

struct Kind {
  int code, bytes;
  Dtype dtype;
};
constexpr Kind kKinds[] = {{0x08, 1, Dtype::u8},  {0x09, 1, Dtype::i8},  {0x0b, 2, Dtype::i16},
                           {0x0c, 4, Dtype::i32}, {0x0d, 4, Dtype::f32}, {0x0e, 8, Dtype::f64}};

void need(Bytes& bytes, void* out, size_t n, const char* what) {
  const size_t got = bytes.read(out, n);
  if (got != n) fail("it ends inside {}: {} of {} bytes are there", what, got, n);
}

/// The low bytes of a value, read big-endian.
uint64_t big_endian(const uint8_t* p, int n) {
  uint64_t v = 0;
  for (int i = 0; i < n; ++i) v = v << 8 | p[i];
  return v;
}

void convert(const Kind& kind, const uint8_t* p, int64_t n, const Tensor& out, int64_t at) {
  for (int64_t i = 0; i < n; ++i, p += kind.bytes) {
    const uint64_t v = big_endian(p, kind.bytes);
    switch (kind.code) {
      case 0x09: out.data_as<int8_t>()[at + i] = int8_t(v); break;
      case 0x0b: out.data_as<int16_t>()[at + i] = int16_t(v); break;
      case 0x0e: std::memcpy(out.data_as<double>() + at + i, &v, 8); break;
      default: {
        const uint32_t word = uint32_t(v);
        std::memcpy(out.data_as<uint32_t>() + at + i, &word, 4);
      }
    }
  }
}

Shape read_shape(Bytes& bytes, int dims) {
  if (dims > kMaxDims) fail("it has {} dimensions, a tensor has at most {}", dims, kMaxDims);
  Shape shape;
  for (int d = 0; d < dims; ++d) {
    uint8_t size[4];
    need(bytes, size, 4, "its shape");
    shape.push(int64_t(big_endian(size, 4)));
  }
  return shape;
}

}  // namespace

Tensor parse_idx(const void* data, size_t size) {
  Bytes bytes(data, size);
  uint8_t magic[4];
  need(bytes, magic, 4, "its first four bytes");
  if (magic[0] != 0 || magic[1] != 0)
    fail("it begins with bytes {:02x} {:02x}, an IDX file with 00 00", magic[0], magic[1]);
  const Kind* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& k) { return k.code == magic[2]; });
  if (kind == std::end(kKinds))
    fail("its type byte is {:02x}, IDX knows 08 09 0b 0c 0d 0e", magic[2]);
  const Shape shape = read_shape(bytes, magic[3]);
  const int64_t n = checked_count("its shape", shape);
  if (uint64_t(n) > bytes.at_most() / uint64_t(kind->bytes))
    fail("its shape {} needs {} values, more than the file can hold", to_string(shape), n);
  const Tensor out = empty(shape, kind->dtype);
  if (kind->code == 0x08) {
    need(bytes, out.data(), size_t(n), "its values");
  } else {
    uint8_t piece[8192];
    const int64_t most = int64_t(sizeof piece) / kind->bytes;
    for (int64_t at = 0; at < n; at += most) {
      check_interrupt();
      const int64_t some = std::min(most, n - at);
      need(bytes, piece, size_t(some * kind->bytes), "its values");
      convert(*kind, piece, some, out, at);
    }
  }
  uint8_t extra;
  if (bytes.read(&extra, 1) != 0)
    fail("bytes follow the {} values of its shape {}", n, to_string(shape));
  return out;
}

Tensor read_idx(const std::string& path) {
  const std::string text = read_file("idx", path);
  try {
    return parse_idx(text.data(), text.size());
  } catch (const Error& e) { fail("idx: '{}' is not a good IDX file: {}", path, e.what()); }
}

}  // namespace mt
