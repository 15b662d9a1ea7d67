// disk_cache.cpp -- one file for each entry: a header with sizes and a checksum, the key, the value
#include "engine/gpu/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/file.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

struct Header {
  char magic[16];
  uint64_t key_size, value_size, checksum;
};
constexpr char kMagic[16] = "mtorch cache 1\n";
constexpr std::string_view kEnding = ".entry";

/// FNV-1a (Fowler, Noll, Vo), continued from `h`.
uint64_t mix(std::string_view bytes, uint64_t h = 0xcbf29ce484222325) {
  for (const char c : bytes) h = (h ^ uint8_t(c)) * 0x100000001b3;
  return h;
}

/// Whether a file name is that of an entry: 32 hexadecimal digits and the ending.
bool is_entry(const std::string& name) {
  return name.size() == 32 + kEnding.size() && name.ends_with(kEnding) &&
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
  if (folder_.empty() || int64_t(sizeof(Header) + key.size() + value.size()) > limit_) return false;
  std::error_code ec;
  fs::create_directories(folder_, ec);
  Header h{{}, key.size(), value.size(), mix(value, mix(key))};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  std::string entry(reinterpret_cast<const char*>(&h), sizeof h);
  try {
    write_file("cache", path_of(key), entry.append(key).append(value));
  } catch (const Error&) { return false; }
  sweep();
  return true;
}

/// Deletes the least recently used entries until three quarters of the limit are used.
void DiskCache::sweep() const {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code ec;
  for (fs::directory_iterator at(folder_, ec), end; !ec && at != end; at.increment(ec)) {
    std::error_code gone;
    if (!is_entry(at->path().filename().string()) || !at->is_regular_file(gone)) continue;
    const Entry e{at->last_write_time(gone), int64_t(at->file_size(gone)), at->path()};
    if (gone) continue;
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
