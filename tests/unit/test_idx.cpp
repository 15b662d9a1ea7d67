// test_idx.cpp -- IDX files: what they say, and every way of being damaged
#include <zlib.h>

#include "engine/io/formats.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/support.h"

namespace mt::test {
namespace {

using Text = std::string;

Text idx(int type, const std::vector<uint32_t>& shape, const Text& values) {
  Text t{'\0', '\0', char(type), char(shape.size())};
  for (uint32_t n : shape)
    for (int shift = 24; shift >= 0; shift -= 8) t.push_back(char(n >> shift & 255));
  return t + values;
}

Text gzip(const Text& text) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Text out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data())),
  z.avail_in = uInt(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data()), z.avail_out = uInt(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

Tensor parse(const Text& t) { return parse_idx(Bytes(file_of(t.data(), t.size()))); }
Tensor read(const Text& path) { return read_by(parse_idx, "idx", path, ""); }
Text parse_error(const Text& t) {
  return error_of([&] { parse(t); });
}

}  // namespace

MT_TEST("each type of IDX is read, plain and packed", "[io]") {
  const Text bytes("\x00\x01\x7f\x80\xff\x10", 6), halves("\xff\xfe\x01\x00", 4);
  for (const bool packed : {false, true}) {
    auto read = [&](const Text& t) { return parse(packed ? gzip(t) : t); };
    const Tensor u8 = read(idx(8, {2, 3}, bytes));
    CHECK(u8.dtype() == Dtype::u8);
    CHECK(u8.shape() == Shape{2, 3});
    CHECK(u8.at(3) == 128);
    CHECK(read(idx(9, {6}, bytes)).at(3) == -128);
    CHECK(read(idx(0x0b, {2}, halves)).at(0) == -2);
    CHECK(read(idx(0x0b, {2}, halves)).at(1) == 256);
    CHECK(read(idx(0x0c, {1}, halves)).at(0) == -130816);
    CHECK(read(idx(0x0d, {1}, Text("\x3f\x80\x00\x00", 4))).at(0) == 1);
    CHECK(read(idx(0x0e, {1}, Text("\xc0\x08\x00\x00\x00\x00\x00\x00", 8))).at(0) == -3);
    CHECK(read(idx(8, {}, "\x07")).item() == 7);
    CHECK(read(idx(8, {0, 5}, "")).numel() == 0);
    const Tensor many = read(idx(0x0c, {50000}, Text(200000, '\x01')));
    CHECK(many.at(49999) == 0x01010101);
  }
  CHECK(parse(gzip(idx(8, {2, 3}, "")) + gzip(bytes)).at(4) == 255);  // two members are one file
}

MT_TEST("a damaged IDX file is refused with its reason", "[io]") {
  const Text good = idx(8, {2, 3}, "abcdef");
  CHECK(contains(parse_error(""), "first four bytes"));
  CHECK(contains(parse_error("\x01"), "first four bytes"));
  CHECK(contains(parse_error("PNG."), "begins with bytes 50 4e"));
  CHECK(contains(parse_error(idx(7, {2}, "ab")), "type byte is 07"));
  CHECK(contains(parse_error(idx(8, std::vector<uint32_t>(255, 1), "a")), "255 dimensions"));
  CHECK(contains(parse_error(good.substr(0, 9)), "ends inside its shape"));
  CHECK(contains(parse_error(good.substr(0, 15)), "more than the file can hold"));
  CHECK(contains(parse_error(good + "g"), "follow the 6 values"));
  CHECK(contains(parse_error(idx(8, {0xffffffffu, 0xffffffffu, 0xffffffffu}, "")), "its shape"));
  CHECK(contains(parse_error(idx(0x0e, {0xffffffffu, 0x7fffffffu}, "")), "its shape"));
  const Text packed = gzip(good);
  for (size_t n = 2; n < packed.size(); ++n)
    CHECK(contains(parse_error(packed.substr(0, n)), "gzip"));
  Text wrong_sum = packed;
  wrong_sum[packed.size() - 6] ^= 1;
  CHECK(contains(parse_error(wrong_sum), "gzip: incorrect data check"));
  CHECK(contains(parse_error(gzip(idx(8, {0x40000000}, "a"))), "more than the file can hold"));
  CHECK(contains(parse_error(gzip(idx(8, {1}, Text(1 << 20, 'a')))), "follow the 1 values"));
}

MT_TEST("files that are no files are refused", "[io]") {
  CHECK(contains(error_of([] { read("/nowhere/at.all"); }), "No such file"));
  CHECK(contains(error_of([] { read("/tmp"); }), "not a regular file"));
  CHECK(contains(error_of([] { read("/dev/zero"); }), "not a regular file"));
  CHECK(contains(error_of([] { read(Text("a\0b", 3)); }), "zero byte"));
}

}  // namespace mt::test
