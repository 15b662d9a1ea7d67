// bytes.h -- sequential reading of bytes from memory or a source, plain or gzip
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/file.h"

namespace mt {

/// A regular file that is open for reading, and its size.
struct RegularFile {
  File file;
  uint64_t size;
};
/// Throws Error with the path and the reason.
RegularFile open_regular(const char* operation, const std::string& path);
/// The content of a regular file. Throws the reason, and the path if it cannot be opened.
std::string read_file(const char* operation, const std::string& path);
/// Calls f() and prefixes its errors with the file: "npz: 'a.npz' is not a valid npz file: ..",
/// where `what` is " is not a valid npz file".
auto reading(const char* operation, const std::string& path, const char* what, const auto& f) {
  try {
    return f();
  } catch (const Error& e) {
    check_interrupt();
    fail("{}: '{}'{}: {}", operation, path, what, e.what());
  }
}

/// Whether bytes begin as gzip: its magic, and deflate, its only method (RFC 1952).
bool is_gzip(const uint8_t* p, size_t n);
/// Converts n little-endian bytes to a number, and back.
uint64_t little_endian(const void* from, int n);
void put_le(std::string& to, uint64_t value, int n);

/// A file's text for messages: control characters become '?'; the middle of a long one is omitted.
std::string printable(std::string_view text, size_t most = 80);

/// A sequential source of bytes.
struct ByteSource {
  virtual ~ByteSource() = default;
  /// Reads exactly the next n bytes, which must exist.
  virtual void read(uint8_t* out, size_t n) = 0;
};

/// Reads bytes sequentially; gzip data (RFC 1952, also with several members) is decompressed. The
/// memory must outlive the reader.
class Bytes {
 public:
  Bytes(const void* data, size_t size);
  explicit Bytes(RegularFile);
  /// Reads `size` bytes of a source without decompression.
  Bytes(std::unique_ptr<ByteSource> source, uint64_t size);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  /// Fills `out` and returns the number of bytes read, which is less than n only at the end. Throws
  /// Error if gzip data is corrupt.
  size_t read(void* out, size_t n);
  /// Fills `out`; throws Error if the bytes end before: "it ends inside its header", where `what` is "its header".
  void need(void* out, size_t n, const char* what);
  /// Whether no byte is left.
  bool ended();
  /// Reads all remaining bytes.
  std::string rest();
  /// An upper bound of the remaining bytes: deflate compresses by at most 1032 to 1.
  uint64_t at_most() const;
  bool packed() const { return bool(inflate_); }

 private:
  struct Inflate;
  void look_for_gzip();
  bool refill();
  size_t take(uint8_t* out, size_t n);
  size_t unpack(uint8_t* out, size_t n);
  const uint8_t* at_ = nullptr;  // the bytes in memory
  size_t left_ = 0;
  std::unique_ptr<ByteSource> source_;  // the source of further bytes
  uint64_t ahead_ = 0;                  // how many bytes it still has
  std::vector<uint8_t> piece_;          // the part of it in memory
  std::unique_ptr<Inflate> inflate_;
};

/// The content of a regular file, decompressed if it is gzip. Throws Error with the path.
std::string read_unpacked(const char* operation, const std::string& path);

}  // namespace mt
