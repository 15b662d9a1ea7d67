// bytes.h -- reading bytes in order from memory or from gzip in memory, never more than is there
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace mt {

/// The whole of a regular file. Throws naming the path and the reason.
std::string read_file(const char* operation, const std::string& path);

/// A text of a file as messages show it: control characters are '?', the middle of a long one is left out.
std::string printable(std::string_view text, size_t most = 80);

/// Bytes in order; what begins as gzip does (RFC 1952, several members too) is unpacked on the way.
/// Memory must outlive the reader.
class Bytes {
 public:
  Bytes(const void* data, size_t size);
  /// Of a regular file. Throws naming the path and the reason.
  Bytes(const char* operation, const std::string& path);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  /// Fills `out` and returns how many bytes there were, fewer than n only at the end. Throws where
  /// gzip is damaged.
  size_t read(void* out, size_t n);
  /// How many more bytes there can be at most: deflate packs 1032 to one and no more.
  uint64_t at_most() const;
  bool packed() const { return bool(inflate_); }

 private:
  struct Inflate;
  struct Input;
  void look_for_gzip();
  bool refill();
  size_t take(uint8_t* out, size_t n);
  size_t unpack(uint8_t* out, size_t n);
  const uint8_t* at_ = nullptr;  // what is in memory now
  size_t left_ = 0;
  std::unique_ptr<Input> file_;  // where more comes from
  std::unique_ptr<Inflate> inflate_;
};

/// The whole of a regular file, unpacked where it is gzip. Throws naming the path.
std::string read_unpacked(const char* operation, const std::string& path);

}  // namespace mt
