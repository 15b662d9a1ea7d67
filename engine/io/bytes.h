// bytes.h -- reading bytes in order from memory or from gzip in memory, never more than is there
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace mt {

/// The whole of a regular file. Throws naming the path and the reason.
std::string read_file(const char* operation, const std::string& path);

/// Bytes in order; what begins as gzip does (RFC 1952, several members too) is unpacked on the way.
/// The memory must outlive the reader.
class Bytes {
 public:
  Bytes(const void* data, size_t size);
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
  size_t unpack(uint8_t* out, size_t n);
  const uint8_t* at_;
  size_t left_;
  std::unique_ptr<Inflate> inflate_;
};

}  // namespace mt
