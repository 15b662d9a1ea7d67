// disk_cache.cpp -- one file for each entry: a header with sizes and a checksum, the key, the value
#include "engine/gpu/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "engine/core/file.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

struct Header {
  char magic[16];
  uint64_t key_size, value_size, checksum;
};
constexpr char kMagic[16] = "mtorch cache 1\n";
constexpr std::string_view kEnding = ".entry", kTemporary = ".begun";

/// FNV-1a (Fowler, Noll, Vo), continued from `h`.
uint64_t mix(std::string_view bytes, uint64_t h = 0xcbf29ce484222325) {
  for (const char c : bytes) h = (h ^ uint8_t(c)) * 0x100000001b3;
  return h;
}

/// Whether a file name is that of a cache file: 32 hexadecimal digits and a suffix.
bool is_cache_file(const std::string& name, std::string_view ending) {
  return name.size() >= 32 + ending.size() && name.ends_with(ending) &&
         std::all_of(name.begin(), name.begin() + 32,
                     [](char c) { return std::strchr("0123456789abcdef", c); });
}

}  // namespace

DiskCache::DiskCache(std::string folder, int64_t limit)
    : folder_(std::move(folder)),
      limit_(limit) {}

std::string DiskCache::path_of(std::string_view key) const {
  return fmt::format("{}/{:016x}{:016x}{}", folder_, mix(key), mix(key, 0x9e3779b97f4a7c15),
                     kEnding);
}

std::optional<std::string> DiskCache::find(std::string_view key) const {
  if (folder_.empty()) return {};
  const std::string path = path_of(key);
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat s {};
  if (!file || fstat(file.fd(), &s) != 0 || !S_ISREG(s.st_mode)) return {};
  Header h{};
  if (!file.read(&h, sizeof h) || std::memcmp(h.magic, kMagic, sizeof kMagic) != 0) return {};
  const uint64_t rest = uint64_t(s.st_size) - sizeof h;
  if (int64_t(rest) > limit_ || h.key_size != key.size() || h.key_size > rest ||
      h.value_size != rest - h.key_size)
    return {};
  std::string text(rest, '\0');
  if (!file.read(text.data(), text.size()) || mix(text) != h.checksum) return {};
  if (std::string_view(text).substr(0, key.size()) != key) return {};
  futimens(file.fd(), nullptr);  // updates the time of last use, if that is permitted
  return text.substr(key.size());
}

bool DiskCache::store(std::string_view key, std::string_view value) const {
  static std::atomic<unsigned> count{0};
  if (folder_.empty() || int64_t(sizeof(Header) + key.size() + value.size()) > limit_) return false;
  std::error_code ec;
  fs::create_directories(folder_, ec);
  const std::string path = path_of(key);
  const std::string partial = fmt::format("{}.{}.{}{}", path, getpid(), ++count, kTemporary);
  Header h{{}, key.size(), value.size(), mix(value, mix(key))};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  {
    const File file(open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return false;
    if (!file.write({reinterpret_cast<const char*>(&h), sizeof h}) || !file.write(key) ||
        !file.write(value)) {
      unlink(partial.c_str());
      return false;
    }
  }
  if (rename(partial.c_str(), path.c_str()) != 0) {
    unlink(partial.c_str());
    return false;
  }
  sweep();
  return true;
}

/// Deletes the least recently used entries until three quarters of the limit are used, and
/// temporary files older than an hour.
void DiskCache::sweep() const {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code ec;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(folder_, ec), end; !ec && at != end; at.increment(ec)) {
    const std::string name = at->path().filename().string();
    const bool whole = is_cache_file(name, kEnding), part = is_cache_file(name, kTemporary);
    std::error_code gone;
    if ((!whole && !part) || !at->is_regular_file(gone)) continue;
    const Entry e{at->last_write_time(gone), int64_t(at->file_size(gone)), at->path()};
    if (gone) continue;
    if (part) {
      if (now - e.used > std::chrono::hours(1)) fs::remove(e.path, gone);
      continue;
    }
    total += e.bytes;
    entries.push_back(e);
  }
  if (total <= limit_) return;
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& e : entries) {
    if (total <= limit_ / 4 * 3) return;
    std::error_code gone;
    if (fs::remove(e.path, gone)) total -= e.bytes;
  }
}

const DiskCache& code_cache() {
  static const DiskCache cache([] {
    const auto variable = [](const char* name) {
      const char* text = std::getenv(name);
      return std::string(text ? text : "");
    };
    const std::string own = variable("MTORCH_CACHE"), xdg = variable("XDG_CACHE_HOME"),
                      home = variable("HOME");
    if (own == "off") return std::string();
    if (!own.empty()) return own;
    if (!xdg.empty() && xdg[0] == '/') return xdg + "/mtorch";  // relative paths must be ignored
    return !home.empty() && home[0] == '/' ? home + "/.cache/mtorch" : std::string();
  }());
  return cache;
}

}  // namespace mt
