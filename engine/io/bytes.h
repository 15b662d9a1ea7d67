// bytes.h -- reading bytes in order from memory or from gzip in memory, never more than is there
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

/// A regular file for reading, and its size.
struct RegularFile {
  File file;
  uint64_t size;
};
/// Throws naming the path and the reason.
RegularFile open_regular(const char* operation, const std::string& path);
/// The whole of a regular file, as it is. Throws naming the reason, and where it cannot be opened the path.
std::string read_file(const char* operation, const std::string& path);
/// f(), whose errors are told of a file: "npz: 'a.npz' is not a good npz file: ..", where `what` is
/// " is not a good npz file".
auto reading(const char* operation, const std::string& path, const char* what, const auto& f) {
  try {
    return f();
  } catch (const Error& e) {
    check_interrupt();
    fail("{}: '{}'{}: {}", operation, path, what, e.what());
  }
}

/// n bytes as a number, the lowest first.
uint64_t little_endian(const void* from, int n);
void put_le(std::string& to, uint64_t value, int n);

/// A text of a file as messages show it: control characters are '?', the middle of a long one is left out.
std::string printable(std::string_view text, size_t most = 80);

/// Where bytes come from, in order.
struct ByteSource {
  virtual ~ByteSource() = default;
  /// Exactly the next n bytes, of those that there are.
  virtual void read(uint8_t* out, size_t n) = 0;
};

/// Bytes in order; what begins as gzip does (RFC 1952, several members too) is unpacked on the way.
/// Memory must outlive the reader.
class Bytes {
 public:
  Bytes(const void* data, size_t size);
  explicit Bytes(RegularFile);
  /// `size` bytes of a source, as they are.
  Bytes(std::unique_ptr<ByteSource> source, uint64_t size);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  /// Fills `out` and returns how many bytes there were, fewer than n only at the end. Throws where
  /// gzip is damaged.
  size_t read(void* out, size_t n);
  /// All that follows.
  std::string rest();
  /// How many more bytes there can be at most: deflate packs 1032 to one and no more.
  uint64_t at_most() const;
  bool packed() const { return bool(inflate_); }

 private:
  struct Inflate;
  void look_for_gzip();
  bool refill();
  size_t take(uint8_t* out, size_t n);
  size_t unpack(uint8_t* out, size_t n);
  const uint8_t* at_ = nullptr;  // what is in memory now
  size_t left_ = 0;
  std::unique_ptr<ByteSource> source_;  // where more comes from
  uint64_t ahead_ = 0;                  // how much
  std::vector<uint8_t> piece_;          // of it in memory
  std::unique_ptr<Inflate> inflate_;
};

/// The whole of a regular file, unpacked where it is gzip. Throws naming the path.
std::string read_unpacked(const char* operation, const std::string& path);

}  // namespace mt
