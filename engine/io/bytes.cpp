// bytes.cpp -- sequential reading of bytes from memory or a source, plain or gzip
#include "engine/io/bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mt {
namespace {

struct FileSource : ByteSource {
  explicit FileSource(File f) : file(std::move(f)) {}
  void read(uint8_t* out, size_t n) override {
    constexpr size_t kPiece = 64 << 20;  // between two checks for Ctrl-C
    for (size_t some; n > 0; out += some, n -= some) {
      check_interrupt();
      some = std::min(n, kPiece);
      errno = 0;
      if (!file.read(out, some))
        fail("the file cannot be read: {}", errno ? std::strerror(errno) : "it became shorter");
    }
  }
  File file;
};

}  // namespace

RegularFile open_regular(const char* operation, const std::string& path) {
  if (path.find('\0') != std::string::npos) fail("{}: the path contains a zero byte", operation);
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file || fstat(file.fd(), &info) != 0)
    fail("{}: cannot read '{}': {}", operation, path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail("{}: '{}' is not a regular file", operation, path);
  return {std::move(file), uint64_t(info.st_size)};
}

std::string read_file(const char* operation, const std::string& path) {
  RegularFile from = open_regular(operation, path);
  std::string text(from.size, '\0');
  FileSource(std::move(from.file)).read(reinterpret_cast<uint8_t*>(text.data()), text.size());
  return text;
}

bool is_gzip(const uint8_t* p, size_t n) {
  return n >= 2 && p[0] == 0x1f && p[1] == 0x8b && (n == 2 || p[2] == 8);
}

uint64_t little_endian(const void* from, int n) {
  const uint8_t* const p = static_cast<const uint8_t*>(from);
  uint64_t value = 0;
  for (int i = 0; i < n; ++i) value |= uint64_t(p[i]) << 8 * i;
  return value;
}
void put_le(std::string& to, uint64_t value, int n) {
  for (int i = 0; i < n; ++i) to.push_back(char(value >> 8 * i));
}

std::string printable(std::string_view text, size_t most) {
  std::string out(text);
  if (out.size() > most) out = out.substr(0, most / 2) + " .. " + out.substr(out.size() - most / 2);
  for (char& c : out)
    if (uint8_t(c) < 0x20 || c == 0x7f) c = '?';
  return out;
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
  look_for_gzip();
}
constexpr size_t kPiece = 256 << 10;

Bytes::Bytes(std::unique_ptr<ByteSource> source, uint64_t size)
    : source_(std::move(source)),
      ahead_(size),
      piece_(std::min<uint64_t>(size, kPiece)) {}
Bytes::Bytes(RegularFile from)
    : Bytes(std::make_unique<FileSource>(std::move(from.file)), from.size) {
  refill();
  look_for_gzip();
}
Bytes::~Bytes() = default;

void Bytes::look_for_gzip() {
  if (is_gzip(at_, left_)) inflate_ = std::make_unique<Inflate>();
}

/// Appends more of the source to the unread part of the piece in memory; false at its end.
bool Bytes::refill() {
  if (ahead_ == 0) return false;
  uint8_t* const piece = piece_.data();
  if (left_) std::memmove(piece, at_, left_);
  const size_t more = std::min<uint64_t>(ahead_, piece_.size() - left_);
  source_->read(piece + left_, more);
  at_ = piece, left_ += more, ahead_ -= more;
  return true;
}

/// Copies bytes of the file without decompression.
size_t Bytes::take(uint8_t* out, size_t n) {
  size_t done = 0;
  while (done < n) {
    const size_t some = std::min(n - done, left_);
    if (some) std::memcpy(out + done, at_, some);
    at_ += some, left_ -= some, done += some;
    if (done == n || ahead_ == 0) break;
    if (n - done >= piece_.size()) {  // read directly into the destination
      const size_t rest = std::min<uint64_t>(n - done, ahead_);
      source_->read(out + done, rest);
      done += rest, ahead_ -= rest;
    } else {
      refill();
    }
  }
  return done;
}

size_t Bytes::read(void* out, size_t n) {
  uint8_t* const to = static_cast<uint8_t*>(out);
  return inflate_ ? unpack(to, n) : take(to, n);
}

void Bytes::need(void* out, size_t n, const char* what) {
  if (const size_t got = read(out, n); got != n)
    fail("it ends inside {}: {} of {} bytes are there", what, got, n);
}

bool Bytes::ended() {
  uint8_t extra;
  return read(&extra, 1) == 0;
}

size_t Bytes::unpack(uint8_t* out, size_t n) {
  constexpr size_t kPiece = 1 << 30;  // zlib counts in 32 bits
  z_stream& z = inflate_->z;
  size_t done = 0;
  while (done < n && !inflate_->ended) {
    if (left_ < 2) refill();
    const size_t in = left_ < kPiece ? left_ : kPiece, room = n - done < kPiece ? n - done : kPiece;
    z.next_in = const_cast<uint8_t*>(at_), z.avail_in = unsigned(in);
    z.next_out = out + done, z.avail_out = unsigned(room);
    const int status = inflate(&z, Z_NO_FLUSH);
    at_ += in - z.avail_in, left_ -= in - z.avail_in;
    done += room - z.avail_out;
    if (status == Z_STREAM_END) {  // a member has ended; another may follow
      if (left_ < 2) refill();
      if (left_ == 0) inflate_->ended = true;
      else if (!is_gzip(at_, left_)) fail("gzip: {} bytes follow its end", left_ + ahead_);
      else inflateReset(&z);
    } else if (status != Z_OK) {
      fail("gzip: {}", status == Z_BUF_ERROR && left_ == 0 ? "the file ends too early"
                       : z.msg                             ? z.msg
                                                           : "damaged data");
    }
  }
  return done;
}

std::string Bytes::rest() {
  // A few kB of zeros can expand to a terabyte. This is also the longest string of LuaJIT.
  constexpr size_t kMaxUnpacked = 0x7fffff00;
  std::string text;
  for (size_t some = inflate_ ? 256 << 10 : size_t(at_most()); some > 0;) {
    const size_t before = text.size();
    text.resize(before + some);
    const size_t got = read(text.data() + before, some);
    text.resize(before + got);
    if (packed() && text.size() > kMaxUnpacked)
      fail("gzip: it unpacks to more than {} bytes", kMaxUnpacked);
    some = inflate_ && got == some ? text.size() : 0;  // doubles the buffer
  }
  return text;
}

std::string read_unpacked(const char* operation, const std::string& path) {
  Bytes bytes(open_regular(operation, path));
  return reading(operation, path, " cannot be read", [&] { return bytes.rest(); });
}

uint64_t Bytes::at_most() const {
  const uint64_t left = left_ + ahead_;
  return inflate_ ? left * 1032 + 65536 : left;
}

}  // namespace mt
