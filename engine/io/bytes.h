// bytes.h -- sequential reading of bytes from files, plain or gzip, and other sources
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

/// Converts n little-endian bytes to a number, and back.
uint64_t little_endian(const void* from, int n);
void put_le(std::string& to, uint64_t value, int n);

/// A file's text for messages: control characters become '?'; the middle of a long one is omitted.
std::string printable(std::string_view text, size_t most = 80);
void replace_all(std::string& text, std::string_view from, std::string_view to);

/// A sequential source of bytes.
struct ByteSource {
  virtual ~ByteSource() = default;
  /// Fills `out` and returns the number of bytes read, which is less than n only at the end. Throws
  /// Error if the data is corrupt.
  virtual size_t read(uint8_t* out, size_t n) = 0;
  /// An upper bound of the remaining bytes.
  virtual uint64_t at_most() const = 0;
  virtual bool packed() const { return false; }
};

/// Reads a source.
class Bytes {
 public:
  /// gzip data is decompressed.
  explicit Bytes(const RegularFile&);
  explicit Bytes(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  size_t read(void* out, size_t n) { return source_->read(static_cast<uint8_t*>(out), n); }
  /// Fills `out`; throws Error if the bytes end before: "it ends inside its header", where `what` is "its header".
  void need(void* out, size_t n, const char* what);
  /// Whether no byte is left.
  bool ended();
  /// Reads all remaining bytes.
  std::string rest();
  uint64_t at_most() const { return source_->at_most(); }
  bool packed() const { return source_->packed(); }

 private:
  std::unique_ptr<ByteSource> source_;
};

/// parse(Source(file)); errors begin with the operation and the path, as in `reading`.
template <class Source = Bytes>
auto read_by(const auto& parse, const char* operation, const std::string& path, const char* what) {
  RegularFile file = open_regular(operation, path);
  return reading(operation, path, what, [&] { return parse(Source(std::move(file))); });
}

}  // namespace mt
