// bytes.cpp -- reading bytes in order from memory or from gzip in memory, never more than is there
#include "engine/io/bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "engine/core/error.h"
#include "engine/core/file.h"

namespace mt {
namespace {

bool is_gzip(const uint8_t* p, size_t n) { return n >= 2 && p[0] == 0x1f && p[1] == 0x8b; }

}  // namespace

std::string read_file(const char* operation, const std::string& path) {
  if (path.find('\0') != std::string::npos) fail("{}: the path contains a zero byte", operation);
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file || fstat(file.fd(), &info) != 0)
    fail("{}: cannot read '{}': {}", operation, path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail("{}: '{}' is not a regular file", operation, path);
  std::string text(size_t(info.st_size), '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = read(file.fd(), text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("{}: cannot read '{}': {}", operation, path, std::strerror(errno));
    if (n == 0) fail("{}: '{}' became shorter while it was read", operation, path);
    have += size_t(n);
  }
  return text;
}

struct Bytes::Inflate {
  z_stream z{};
  bool ended = false;
  Inflate() {
    if (inflateInit2(&z, 15 + 16) != Z_OK) fail("gzip: no memory to unpack");
  }
  ~Inflate() { inflateEnd(&z); }
};

Bytes::Bytes(const void* data, size_t size) : at_(static_cast<const uint8_t*>(data)), left_(size) {
  if (is_gzip(at_, left_)) inflate_ = std::make_unique<Inflate>();
}
Bytes::~Bytes() = default;

size_t Bytes::read(void* out, size_t n) {
  if (inflate_) return unpack(static_cast<uint8_t*>(out), n);
  const size_t some = n < left_ ? n : left_;
  if (some) std::memcpy(out, at_, some);
  at_ += some, left_ -= some;
  return some;
}

size_t Bytes::unpack(uint8_t* out, size_t n) {
  constexpr size_t kPiece = 1 << 30;  // zlib counts in 32 bits
  z_stream& z = inflate_->z;
  size_t done = 0;
  while (done < n && !inflate_->ended) {
    const size_t in = left_ < kPiece ? left_ : kPiece, room = n - done < kPiece ? n - done : kPiece;
    z.next_in = const_cast<uint8_t*>(at_), z.avail_in = unsigned(in);
    z.next_out = out + done, z.avail_out = unsigned(room);
    const int status = inflate(&z, Z_NO_FLUSH);
    at_ += in - z.avail_in, left_ -= in - z.avail_in;
    done += room - z.avail_out;
    if (status == Z_STREAM_END) {  // a member has ended; another may follow
      if (left_ == 0) inflate_->ended = true;
      else if (!is_gzip(at_, left_)) fail("gzip: {} bytes follow its end", left_);
      else inflateReset(&z);
    } else if (status != Z_OK) {
      fail("gzip: {}", status == Z_BUF_ERROR && left_ == 0 ? "the file ends too early"
                       : z.msg                             ? z.msg
                                                           : "damaged data");
    }
  }
  return done;
}

uint64_t Bytes::at_most() const {
  return inflate_ ? uint64_t(left_) * 1032 + 65536 : uint64_t(left_);
}

}  // namespace mt
