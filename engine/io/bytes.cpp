// bytes.cpp -- sequential reading of bytes from files, plain or gzip, and other sources
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

constexpr size_t kPiece = 64 << 20;  // between two checks for Ctrl-C

struct PlainSource : ByteSource {
  explicit PlainSource(const RegularFile& from) : file(dup(from.file.fd())), left(from.size) {}
  size_t read(uint8_t* out, size_t n) override {
    n = std::min<uint64_t>(n, left);
    for (size_t done = 0, some; done < n; done += some) {
      check_interrupt();
      some = std::min(n - done, kPiece);
      errno = 0;
      if (!file.read(out + done, some))
        fail("the file cannot be read: {}", errno ? std::strerror(errno) : "it became shorter");
    }
    left -= n;
    return n;
  }
  uint64_t at_most() const override { return left; }
  const File file;
  uint64_t left;
};

/// A gzip file (RFC 1952, also with several members), by zlib.
struct GzipSource : ByteSource {
  explicit GzipSource(const RegularFile& from)
      : size(from.size),
        file(gzdopen(dup(from.file.fd()), "rb")) {
    if (!file) fail("it cannot be opened");
    gzbuffer(file, kBuffer);
  }
  GzipSource(const GzipSource&) = delete;
  ~GzipSource() override { gzclose(file); }
  size_t read(uint8_t* out, size_t n) override {
    size_t done = 0;
    for (int got = 1; done < n && got > 0; done += size_t(std::max(got, 0))) {
      check_interrupt();
      got = gzread(file, out + done, unsigned(std::min(n - done, kPiece)));
    }
    int status = Z_OK;
    const std::string_view why = gzerror(file, &status);  // "<fd:3>: incorrect data check"
    if (status == Z_ERRNO) fail("the file cannot be read: {}", std::strerror(errno));
    if (status == Z_BUF_ERROR && done < n) fail("gzip: the file ends too early");
    if (status < 0 && status != Z_BUF_ERROR) fail("gzip: {}", why.substr(why.find(": ") + 2));
    return done;
  }
  /// Deflate compresses by at most 1032 to 1, and zlib has two buffers of unpacked bytes.
  uint64_t at_most() const override {
    return (size - std::min(size, uint64_t(gzoffset(file)))) * 1032 + 4 * kBuffer;
  }
  bool packed() const override { return true; }
  static constexpr unsigned kBuffer = 64 << 10;
  const uint64_t size;
  const gzFile file;
};

std::unique_ptr<ByteSource> source_of(const RegularFile& file) {
  char head[3] = {};  // gzip's magic, and deflate, its only method
  if (pread(file.file.fd(), head, 3, 0) >= 2 &&
      std::memcmp(head, "\x1f\x8b\x08", file.size == 2 ? 2 : 3) == 0)
    return std::make_unique<GzipSource>(file);
  return std::make_unique<PlainSource>(file);
}

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
  const RegularFile from = open_regular(operation, path);
  std::string text(from.size, '\0');
  if (!from.file.read(text.data(), text.size()))
    fail("{}: '{}' cannot be read: {}", operation, path, std::strerror(errno));
  return text;
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

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty() || text.find(from) == text.npos) return;
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != text.npos; at = found + from.size())
    out.append(text, at, found - at).append(to);
  text = out.append(text, at);
}

Bytes::Bytes(const RegularFile& from) : source_(source_of(from)) {}

void Bytes::need(void* out, size_t n, const char* what) {
  if (const size_t got = read(out, n); got != n)
    fail("it ends inside {}: {} of {} bytes are there", what, got, n);
}

bool Bytes::ended() {
  uint8_t extra;
  return read(&extra, 1) == 0;
}

std::string Bytes::rest() {
  // A few kB of zeros can expand to a terabyte. This is also the longest string of LuaJIT.
  constexpr size_t kMaxUnpacked = 0x7fffff00;
  std::string text;
  for (size_t some = packed() ? 256 << 10 : size_t(at_most()); some > 0;) {
    const size_t before = text.size();
    text.resize(before + some);
    const size_t got = read(text.data() + before, some);
    text.resize(before + got);
    if (packed() && text.size() > kMaxUnpacked)
      fail("gzip: it unpacks to more than {} bytes", kMaxUnpacked);
    some = packed() && got == some ? text.size() : 0;  // doubles the buffer
  }
  return text;
}

}  // namespace mt
